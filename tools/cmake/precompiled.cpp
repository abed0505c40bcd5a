// Has nothing of its own: compiles the headers of MeshwrightPrecompiled.cmake.
