"""The end of the JVM, as it ends in order with us, is no error of PySpark's that is shown."""

from __future__ import annotations

import socket
import socketserver

import pytest

from spark_bridge.session import end_quietly


class Broken(socketserver.TCPServer):
    """A server whose every request fails with *error*."""

    error: Exception

    def process_request(self, request: object, client_address: object) -> None:
        raise self.error


@pytest.mark.parametrize("error", [EOFError(), ConnectionResetError(), ValueError("odd")], ids=repr)
def test_only_the_end_of_the_jvm_is_quiet(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    """What else a handler of accumulators raises is still shown."""
    with Broken(("127.0.0.1", 0), socketserver.BaseRequestHandler) as server:
        server.error = error
        end_quietly(server)
        with socket.create_connection(server.server_address[:2]):
            server.handle_request()
    assert ("odd" in capsys.readouterr().err) == isinstance(error, ValueError)


def test_a_context_without_such_a_server() -> None:
    """A PySpark that has none is left as it is."""
    end_quietly(None)
