# cmake -DSOURCE=assets.cpp "-DFILES=page/index.html;..." -P embed.cmake
set(rows "")
foreach(file ${FILES})
  file(READ ${file} text)
  cmake_path(GET file FILENAME name)
  string(APPEND rows "    {\"${name}\", R\"==asset==(${text})==asset==\"},\n")
endforeach()
file(WRITE ${SOURCE} "#include \"tools/report/assets.h\"

namespace meshwright {

namespace {

struct Asset {
  std::string_view name, text;
};

constexpr Asset all_assets[] = {
${rows}};

}  // namespace

std::optional<std::string_view> asset(std::string_view name) {
  for (const Asset& each : all_assets)
    if (each.name == name) return each.text;
  return std::nullopt;
}

}  // namespace meshwright
")
