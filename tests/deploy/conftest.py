"""A running service to compare the examples with."""

from tests.api.conftest import _data_folder, client, serve, url

__all__ = ["_data_folder", "client", "serve", "url"]
