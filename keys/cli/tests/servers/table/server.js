const fs = require("fs");
const tls = require("tls");
const server = tls.createServer({
@lines@
}, (socket) => socket.end());
server.on("tlsClientError", (error) => console.log(error));
server.listen(@port@, "127.0.0.1");
