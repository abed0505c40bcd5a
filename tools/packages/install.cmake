# Says what `cmake --install` puts where. Component `program`: the program, completions, manual pages, licence and documents, which
# the Debian package holds too; component `library`: what C++ programs use (find_package(meshwright)).
if(MESHWRIGHT_SANITIZE)
  return()
endif()
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(MESHWRIGHT_ZSH_FOLDER ${CMAKE_INSTALL_DATADIR}/zsh/site-functions CACHE STRING "where zsh looks for completions")
set(MESHWRIGHT_FISH_FOLDER ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d CACHE STRING "where fish looks for completions")

install(TARGETS meshwright RUNTIME COMPONENT program)

# Completions are what the program itself prints.
set(completions ${CMAKE_BINARY_DIR}/completions)
file(MAKE_DIRECTORY ${completions})
foreach(shell bash zsh fish)
  add_custom_command(OUTPUT ${completions}/${shell} DEPENDS meshwright VERBATIM
                     COMMAND meshwright completion ${shell} > ${completions}/${shell})
endforeach()
add_custom_target(completions ALL DEPENDS ${completions}/bash ${completions}/zsh ${completions}/fish)
install(FILES ${completions}/bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME meshwright COMPONENT program)
install(FILES ${completions}/zsh DESTINATION ${MESHWRIGHT_ZSH_FOLDER} RENAME _meshwright COMPONENT program)
install(FILES ${completions}/fish DESTINATION ${MESHWRIGHT_FISH_FOLDER} RENAME meshwright.fish COMPONENT program)

# The manual page is what `meshwright manual` prints, where there is that command.
install(FILES ${CMAKE_BINARY_DIR}/man/meshwright.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program OPTIONAL)
file(GLOB documents ${PROJECT_SOURCE_DIR}/docs/*.md)
install(FILES ${documents} ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
install(FILES ${PROJECT_SOURCE_DIR}/scenarios/quickstart-plan.json
        DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples COMPONENT program)
install(FILES ${PROJECT_SOURCE_DIR}/scenarios/models/llama-2-7b/config.json
        DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples/models/llama-2-7b COMPONENT program)

if(static_libraries)  # whose names mean nothing elsewhere
  return()
endif()
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/meshwright)
foreach(library core models hwprofiles sim)
  target_include_directories(${library} INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
                             $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/meshwright>)
  target_compile_features(${library} INTERFACE cxx_std_20)
  if(library STREQUAL core)  # a folder of models
    continue()
  endif()
  file(GLOB_RECURSE headers RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${library}/*.h)
  foreach(header ${headers})
    cmake_path(GET header PARENT_PATH folder)
    install(FILES ${PROJECT_SOURCE_DIR}/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/meshwright/${folder} COMPONENT library)
  endforeach()
endforeach()
install(TARGETS core models hwprofiles sim et_def_protobuf onnx_protobuf EXPORT meshwright
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/meshwright COMPONENT library)
install(EXPORT meshwright NAMESPACE meshwright:: FILE targets.cmake DESTINATION ${package_folder} COMPONENT library)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/meshwright-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_SOURCE_DIR}/tools/packages/meshwright-config.cmake ${PROJECT_SOURCE_DIR}/tools/cmake/FindMETIS.cmake
        ${CMAKE_BINARY_DIR}/meshwright-config-version.cmake DESTINATION ${package_folder} COMPONENT library)
