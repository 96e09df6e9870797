"""The compiler of Netloom, from a model file to a run: internals of the package `netloom`."""
