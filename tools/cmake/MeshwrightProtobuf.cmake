# Messages of protocol buffers: what protoc makes of a description is a library of its own, which is
# not compiled with our warnings.
find_package(Protobuf REQUIRED)
set(protobuf_library protobuf::libprotobuf)
if(MESHWRIGHT_SELF_CONTAINED)  # the archive has no code for modules
  find_library(PROTOBUF_SHARED libprotobuf.so REQUIRED)
  add_library(meshwright_libprotobuf INTERFACE)
  target_link_libraries(meshwright_libprotobuf INTERFACE
                        $<IF:$<STREQUAL:$<TARGET_PROPERTY:TYPE>,MODULE_LIBRARY>,${PROTOBUF_SHARED},${Protobuf_LIBRARY}>)
  set(protobuf_library meshwright_libprotobuf)
endif()

# add_protobuf(<target> <file.proto>): the target's sources may include "<file>.pb.h".
function(add_protobuf target description)
  cmake_path(GET description STEM name)
  cmake_path(ABSOLUTE_PATH description OUTPUT_VARIABLE source)
  cmake_path(GET source PARENT_PATH folder)
  set(made ${CMAKE_CURRENT_BINARY_DIR}/protobuf)
  file(MAKE_DIRECTORY ${made})
  add_custom_command(OUTPUT ${made}/${name}.pb.cc ${made}/${name}.pb.h
                     COMMAND protobuf::protoc --cpp_out=${made} --proto_path=${folder} ${source}
                     DEPENDS ${source} VERBATIM)
  add_library(${name}_protobuf STATIC ${made}/${name}.pb.cc ${made}/${name}.pb.h)
  if(MESHWRIGHT_RUNTIME)
    target_compile_options(${name}_protobuf PRIVATE -fPIC)
  endif()
  target_include_directories(${name}_protobuf SYSTEM INTERFACE $<BUILD_INTERFACE:${made}>)
  target_link_libraries(${name}_protobuf PUBLIC ${protobuf_library})
  target_link_libraries(${target} PRIVATE ${name}_protobuf)
endfunction()
