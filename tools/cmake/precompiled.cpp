// Contains no code: it is compiled only to make the precompiled headers of
// MeshwrightPrecompiled.cmake.
