"""The documentation as a site: `python -m scripts.site` (or `make docs`) writes build/docs/."""
