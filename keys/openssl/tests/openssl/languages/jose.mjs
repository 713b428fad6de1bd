// SignJWT of jose 6 with crypto.createPrivateKey. It takes the key over as a CryptoKey where Node can (from 22.10), else by
// its JWK, which has no private key. DIRECTORY, with the package's place in NODE_PATH
import fs from "node:fs";
import { createRequire } from "node:module";
import { createPrivateKey, createPublicKey } from "node:crypto";
const [, , directory] = process.argv;
const jose = await import(createRequire(`${process.env.NODE_PATH}/`).resolve("jose"));

for (const [file, alg] of [["rsa2048", "RS256"], ["rsa2048", "PS256"], ["p256", "ES256"], ["p384", "ES384"], ["ed25519", "EdDSA"]]) {
    const read = (kind) => fs.readFileSync(`${directory}/${file}.${kind}`);
    try {
        const token = await new jose.SignJWT({ a: 1 }).setProtectedHeader({ alg }).sign(createPrivateKey(read("pem")));
        console.log(alg, (await jose.jwtVerify(token, createPublicKey(read("pub")))).payload.a === 1);
    } catch (error) {
        console.log(alg, "exception", error.name);
    }
}
