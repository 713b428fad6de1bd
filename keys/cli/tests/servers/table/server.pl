use strict;
use IO::Socket::SSL;
$| = 1;
my $listening = IO::Socket::SSL->new(
    LocalAddr => "127.0.0.1",
    LocalPort => @port@,
    Listen => 16,
    @lines@
) or die $SSL_ERROR;
while (1) {
    my $connection = $listening->accept;
    $connection ? <$connection> : print "$SSL_ERROR\n";
}
