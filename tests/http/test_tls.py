"""HTTPS with a token, on two workers that ask each other."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

import pytest

from http_support.asking import AT_ONCE, free_port
from runtime_support.running_app import Cluster, counting
from streams.app.states import ClientState
from streams.remote import RemoteError, RemoteStreams, RemoteUnavailable
from waiting import wait_until

TOKEN = "correct-horse-battery-staple"
WORDS = [f"w{number}" for number in range(20)]
NAMES = "subjectAltName=DNS:localhost,IP:127.0.0.1"


def test_workers_ask_each_other_by_https_and_with_the_token(tmp_path: Path) -> None:
    certificate, key, token = (tmp_path / name for name in ("certificate.pem", "key.pem", "token"))
    made = ["-subj", "/CN=localhost", "-addext", NAMES, "-keyout", str(key), "-out", str(certificate)]
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *made]
    subprocess.run(words, check=True, capture_output=True)
    token.write_text(TOKEN)
    settings = {
        **AT_ONCE,
        "http.tls.certificate": str(certificate),
        "http.tls.key": str(key),
        "http.token.file": str(token),
    }
    with Cluster(tmp_path / "cluster", partitions=2) as cluster:
        urls = []
        for _ in range(2):
            port = free_port()
            app = cluster.app(counting(), {**settings, "http.listen": f"127.0.0.1:{port}"})
            cluster.until_state(app, ClientState.RUNNING)
            urls.append(f"https://127.0.0.1:{port}")
            assert app.status().endpoint == urls[-1]
        producer = cluster.clients.producer({})
        for word in WORDS:
            producer.produce("in", word.encode(), word.encode(), -1, None, None, 1, None)
        producer.flush()
        trusted = ssl.create_default_context(cafile=str(certificate))
        for url in urls:
            with RemoteStreams(url, token=TOKEN, context=trusted, wait=60) as remote:
                counts = remote.store("counts")
                wait_until("all are counted", lambda counts=counts: counts.get_all(WORDS) == [1] * len(WORDS))
            with RemoteStreams(url, context=trusted) as remote, pytest.raises(RemoteError, match="a bearer token"):
                remote.stores()
            with RemoteStreams(url, token=TOKEN) as remote, pytest.raises(RemoteUnavailable, match="certificate"):
                remote.stores()
