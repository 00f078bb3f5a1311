"""A running service to compare the examples with."""

from tests.api.conftest import _data_folder, client, in_process, serve, url

__all__ = ["_data_folder", "client", "in_process", "serve", "url"]
