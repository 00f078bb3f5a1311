"""What is wrong with a Ray, or with an address, is one line that says what to do; nothing is started for it."""

import socket
import subprocess
import sys
import types

import pytest

from profiler.cluster.connection import ClusterError, connected, load_ray, read_address


@pytest.mark.parametrize(
    ("module", "said"),
    [
        (None, "Ray is not installed here"),
        (types.SimpleNamespace(__version__="2.9.3"), "this Ray is too old; expected 2.55 or newer; got 2.9.3"),
        (types.SimpleNamespace(__version__="unknown"), "this Ray is too old"),
    ],
)
def test_a_missing_or_old_ray_is_one_line(monkeypatch, module, said):
    """The line names the extra that brings it."""
    monkeypatch.setitem(sys.modules, "ray", module)
    with pytest.raises(ClusterError, match=said) as told:
        load_ray()
    assert "pip install 'specworth[ray]'" in told.value.line()


def test_ray_is_not_imported_with_us():
    """An installation without the extra imports every module; Ray is loaded where a cluster is asked for."""
    modules = "profiler.cluster.sweep, api.commands.run_sweep, api.jobs.worker"
    code = f"import sys; sys.modules['ray'] = None; import {modules}; assert sys.modules['ray'] is None"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("ray://10.0.0.5:10001", "Ray Client"),
        ("10.0.0.5", "is no address"),
        ("10.0.0.5:0", "is no address"),
        ("10.0.0.5:70000", "is no address"),
        ("http://10.0.0.5:6379", "is no address"),
        ("10.0.0.5:6379 ", None),
        ("[::1]:6379", None),
        ("auto", None),
    ],
)
def test_addresses(address, said):
    """HOST:PORT or auto; others are refused with what to give."""
    if said is None:
        assert read_address(address) == address.strip()
        return
    with pytest.raises(ClusterError, match=said) as told:
        read_address(address)
    assert "HOST:PORT" in told.value.line()


def test_the_address_comes_from_the_environment(monkeypatch):
    """As for Ray itself."""
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.5:6379")
    assert read_address(None) == "10.0.0.5:6379"
    monkeypatch.delenv("RAY_ADDRESS")
    assert read_address(None) == "auto"


def test_an_address_where_nobody_listens_is_one_line():
    """Asked by ourselves: Ray would wait for a minute."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ClusterError, match=f"no Ray cluster at {address}; got connection refused; start one"):
            connected(address, give_up=pytest.fail).__enter__()


def test_a_listener_that_is_no_cluster_ends_the_wait():
    """Ray cannot be interrupted while it waits, so the process is ended with what to say."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        code = f"""if True:
            from profiler.cluster.connection import connected
            from profiler.cluster.words import Words
            connected({address!r}, patience_s=1.0, give_up=Words().give_up).__enter__()
        """
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert f"no Ray cluster answers at {address}; expected the head's own port" in done.stderr
