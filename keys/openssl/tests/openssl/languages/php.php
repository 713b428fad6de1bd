<?php // openssl_sign, openssl_pkey_get_details, and an export, which names the key. DIRECTORY
foreach (["rsa2048", "p256"] as $name) {
    $key = openssl_pkey_get_private(file_get_contents("$argv[1]/$name.pem"));
    $signed = openssl_sign("data", $signature, $key, "sha256");
    $details = openssl_pkey_get_details($key);
    $parts = implode(" ", array_keys($details["rsa"] ?? $details["ec"]));
    $verified = openssl_verify("data", $signature, file_get_contents("$argv[1]/$name.pub"), "sha256");
    echo "$name ", $signed ? "signed" : "failed", " $verified $details[bits] $parts\n";
    openssl_pkey_export($key, $text);
    echo strtok($text, "\n"), "\n";
}
