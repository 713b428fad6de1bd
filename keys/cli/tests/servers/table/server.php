<?php
$context = stream_context_create(["ssl" => [
@lines@
]]);
$flags = STREAM_SERVER_BIND | STREAM_SERVER_LISTEN;
$listening = stream_socket_server("tls://127.0.0.1:@port@", $number, $error, $flags, $context);
while (true) {
    $connection = stream_socket_accept($listening, -1);
}
