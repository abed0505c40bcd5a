# Run by embed_files (MeshwrightAssets.cmake).
set(rows "")
foreach(file ${FILES})
  file(READ ${file} text)
  if(ROOT)
    cmake_path(RELATIVE_PATH file BASE_DIRECTORY ${ROOT} OUTPUT_VARIABLE name)
  else()
    cmake_path(GET file FILENAME name)
  endif()
  string(APPEND rows "    {\"${name}\", R\"==file==(${text})==file==\"},\n")
endforeach()
file(WRITE ${SOURCE} "#include \"${HEADER}\"

namespace meshwright::${ROOM} {

namespace {

constexpr BuiltInFile embedded[] = {
${rows}};

}  // namespace

std::span<const BuiltInFile> ${FUNCTION}() { return embedded; }

}  // namespace meshwright::${ROOM}
")
