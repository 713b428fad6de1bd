import socket
import ssl

context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
@lines@
with socket.create_server(("127.0.0.1", @port@)) as listening:
    while True:
        connection, _ = listening.accept()
        try:
            with context.wrap_socket(connection, server_side=True) as session:
                session.recv(1)
        except OSError as error:
            print(error, flush=True)
