# Writes OUTPUT, a C++ file that holds every .yaml file of DIR as a string:
# cmake -DDIR=standards -DOUTPUT=x.cpp -P EmbedStandards.cmake
file(GLOB files ${DIR}/*.yaml)
list(SORT files)
set(entries "")
foreach(file ${files})
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} text)
  string(APPEND entries "    {\"${name}\", R\"yaml(${text})yaml\"},\n")
endforeach()
file(WRITE ${OUTPUT} "// Written by cmake/EmbedStandards.cmake.
#include \"assay/metrics/embedded_standards.h\"

namespace assay {

std::span<const EmbeddedStandard> embedded_standards() {
  static constexpr EmbeddedStandard kStandards[] = {
${entries}  };
  return kStandards;
}

}  // namespace assay
")
