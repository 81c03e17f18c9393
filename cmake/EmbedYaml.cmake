# Writes OUTPUT, a C++ file that defines NAMESPACE::FUNCTION(), declared in
# HEADER: every .yaml file of DIR as a TYPE {name, text}, sorted by name.
# cmake -DDIR= -DOUTPUT= -DHEADER= -DNAMESPACE= -DTYPE= -DFUNCTION= -P this
file(GLOB files ${DIR}/*.yaml)
list(SORT files)
set(entries "")
foreach(file ${files})
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} text)
  if(text MATCHES "\\)yaml\"")
    message(FATAL_ERROR "${file}: holds )yaml\", which ends its C++ literal")
  endif()
  string(APPEND entries "    {\"${name}\", R\"yaml(${text})yaml\"},\n")
endforeach()
file(WRITE ${OUTPUT} "// Written by cmake/EmbedYaml.cmake.
#include \"${HEADER}\"

namespace ${NAMESPACE} {

std::span<const ${TYPE}> ${FUNCTION}() {
  static constexpr ${TYPE} kFiles[] = {
${entries}  };
  return kFiles;
}

}  // namespace ${NAMESPACE}
")
