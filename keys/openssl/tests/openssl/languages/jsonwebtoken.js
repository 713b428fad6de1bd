// sign and verify of jsonwebtoken, with the file and with a KeyObject. DIRECTORY, with the package's place in NODE_PATH
const fs = require("fs");
const { createPrivateKey } = require("crypto");
const { sign, verify } = require(`${process.env.NODE_PATH}/node_modules/jsonwebtoken`);
const [, , directory] = process.argv;

for (const [file, algorithm] of [["rsa2048", "RS256"], ["rsa2048", "PS256"], ["p256", "ES256"], ["p384", "ES384"]]) {
    const read = (kind) => fs.readFileSync(`${directory}/${file}.${kind}`);
    for (const key of [read("pem"), createPrivateKey(read("pem"))])
        console.log(algorithm, verify(sign({ a: 1 }, key, { algorithm }), read("pub"), { algorithms: [algorithm] }).a === 1);
}
