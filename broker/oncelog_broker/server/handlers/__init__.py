"""Each API has one file here: its behaviour, its versions and where its errors come from."""
