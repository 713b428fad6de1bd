// What jsonwebtoken and jose ask of node:crypto, and what they ask before. DIRECTORY
const crypto = require("crypto");
const fs = require("fs");
const [, , directory] = process.argv;
const data = Buffer.from("a message to sign");
const pss = { padding: crypto.constants.RSA_PKCS1_PSS_PADDING, saltLength: crypto.constants.RSA_PSS_SALTLEN_DIGEST };
const ways = { "RS256": ["sha256", {}], "PS256": ["sha256", pss], "ES256": ["sha256", { dsaEncoding: "ieee-p1363" }],
    "ES384": ["sha384", { dsaEncoding: "ieee-p1363" }], "EdDSA": [null, {}] };

for (const [file, names] of [["rsa2048", ["RS256", "PS256"]], ["p256", ["ES256"]], ["p384", ["ES384"]], ["ed25519", ["EdDSA"]]]) {
    const key = crypto.createPrivateKey(fs.readFileSync(`${directory}/${file}.pem`));
    const details = key.asymmetricKeyDetails;
    const open = crypto.createPublicKey(fs.readFileSync(`${directory}/${file}.pub`));
    const jwk = JSON.stringify(crypto.createPublicKey(key).export({ format: "jwk" }));
    const same = jwk === JSON.stringify(open.export({ format: "jwk" }));
    console.log(key.asymmetricKeyType, details.modulusLength ?? details.namedCurve ?? "-", same ? "jwk" : jwk);
    for (const name of names) {
        const [digest, options] = ways[name];
        const signature = crypto.sign(digest, data, { key, ...options });
        console.log(name, crypto.verify(digest, data, { key: open, ...options }, signature));
    }
    console.log(key.export({ format: "pem", type: "pkcs8" }).split("\n")[0]);
}
const rsa = fs.readFileSync(`${directory}/rsa2048.pem`);
for (const padding of [crypto.constants.RSA_PKCS1_PADDING, crypto.constants.RSA_PKCS1_OAEP_PADDING]) {
    const cipher = crypto.publicEncrypt({ key: fs.readFileSync(`${directory}/rsa2048.pub`), padding }, data);
    console.log("decrypted", crypto.privateDecrypt({ key: rsa, padding }, cipher).equals(data));
}
