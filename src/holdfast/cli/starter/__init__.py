"""The files of a first project, as `holdfast init` writes them."""
