# assay_page_assets(<folder> HEADER <h> NAMESPACE <n>
#                   ASSETS <constant> <file>... [-- <constant> <file>...])
# The files of a page, several joined in order, become constants of the library
# assay_<folder>_assets, which assay_<folder> links: a page needs nothing beside
# it. A target of its own: generated sources would make every object of the
# folder wait for all the libraries that it links.
function(assay_page_assets folder)
  cmake_parse_arguments(ARG "" "HEADER;NAMESPACE" "ASSETS" ${ARGN})
  set(script ${CMAKE_SOURCE_DIR}/assay/report/html/embed.cmake)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/html_assets.cpp)
  set(list "")
  set(files "")
  set(separator "")
  set(starts TRUE)
  foreach(word IN LISTS ARG_ASSETS)
    if(word STREQUAL "--")
      set(starts TRUE)
    elseif(starts)
      string(APPEND list "${separator}${word}=")
      set(separator "|")
      set(join "")
      set(starts FALSE)
    else()
      string(APPEND list "${join}${word}")
      set(join "*")
      list(APPEND files ${word})
    endif()
  endforeach()
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DOUT=${out} -DHEADER=${ARG_HEADER}
      -DNAMESPACE=${ARG_NAMESPACE} "-DASSETS=${list}" -P ${script}
    DEPENDS ${files} ${script}
    VERBATIM)
  add_library(assay_${folder}_assets STATIC ${out})
  target_link_libraries(assay_${folder}_assets PUBLIC assay_flags)
  assay_exported(assay_${folder}_assets ${folder}_assets)
  target_link_libraries(assay_${folder} PRIVATE assay_${folder}_assets)
endfunction()
