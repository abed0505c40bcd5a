# The Debian package, by CPack: `cmake --preset package && cmake --build --preset package && (cd build/package && cpack)`.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME meshwright)
set(CPACK_PACKAGE_CONTACT "The meshwright developers <meshwright@users.noreply.github.com>")
set(CPACK_INSTALL_CMAKE_PROJECTS "${CMAKE_BINARY_DIR};meshwright;program;/")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
# By hand: dpkg-shlibdeps would name Open MPI's library as this release calls it. tools/packages/check_deb installs it on others.
set(CPACK_DEBIAN_PACKAGE_DEPENDS
    "libc6 (>= 2.34), libgcc-s1 (>= 3.3.1), libmetis5, libopenblas0, libopenmpi3 | libopenmpi3t64 | libopenmpi40, libpcre2-8-0, libstdc++6 (>= 12)")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS openmpi-bin)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "planner, simulator and engine of distributed deep-learning training")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "Meshwright searches the ways to train a large model on a cluster of GPUs, and
predicts time, memory and cost of a step before anything runs: pipeline,
tensor, data, context and expert parallelism, ZeRO and recomputation.
.
It also trains on this computer under the plan that it chose, and reads and
writes the settings of other frameworks.")

# Adds what Debian's policy asks for, in addition to the files of every installation.
find_program(GZIP gzip REQUIRED)
set(documents ${CMAKE_BINARY_DIR}/debian)
file(MAKE_DIRECTORY ${documents})
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(WRITE ${documents}/changelog "meshwright (${PROJECT_VERSION}) unstable; urgency=medium

  * Version ${PROJECT_VERSION}: /usr/share/doc/meshwright/changelog.md.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
install(FILES ${documents}/changelog ${PROJECT_SOURCE_DIR}/tools/packages/copyright DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
install(CODE "
  file(GLOB packed \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DOCDIR}/changelog\" \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_MANDIR}/man1/*.1\")
  foreach(file \${packed})
    execute_process(COMMAND ${GZIP} -9nf \${file} COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
  # The licence is Debian's own copy.
  file(REMOVE \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DOCDIR}/LICENSE\")" COMPONENT program)
include(CPack)
