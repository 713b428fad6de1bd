# Crypt::OpenSSL::RSA computes by itself, so it cannot sign: it has to say so. DIRECTORY
use strict;
use warnings;
use Crypt::OpenSSL::RSA;

open(my $file, "<", "$ARGV[0]/rsa2048.pem") or die;
local $/;
my $signed = eval { Crypt::OpenSSL::RSA->new_private_key(<$file>)->sign("data") };
print defined $signed ? "signed\n" : $@;
