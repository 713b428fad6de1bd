# Crypt::OpenSSL::RSA: signatures, decryption, and what it exports. DIRECTORY
use strict;
use warnings;
use Crypt::OpenSSL::RSA;

sub content {
    open(my $file, "<", "$ARGV[0]/$_[0]") or die;
    local $/;
    return <$file>;
}

my $key = Crypt::OpenSSL::RSA->new_private_key(content("rsa2048.pem"));
my $public = Crypt::OpenSSL::RSA->new_public_key(content("rsa2048.pub"));
$key->use_sha256_hash;
$public->use_sha256_hash;
print "verified ", $public->verify("data", $key->sign("data")) ? 1 : 0, "\n";
print "decrypted ", $key->decrypt($public->encrypt("data")) eq "data" ? 1 : 0, "\n";
my $copy = eval { Crypt::OpenSSL::RSA->new_private_key($key->get_private_key_string) };
my $signed = $copy && eval { $copy->sign("data") };
print "a copy signs ", defined $signed ? 1 : 0, "\n";
