"""One file per API: its behaviour, its versions and where its errors come from."""
