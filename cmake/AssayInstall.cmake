# What `cmake --install` lays down besides the libraries: headers, the program,
# the standards and a package that find_package(assay) reads.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/assay)

# Kernel bodies are nobody's interface.
install(DIRECTORY assay/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/assay
  FILES_MATCHING PATTERN "*.h"
  PATTERN "*-inl.h" EXCLUDE
  
  PATTERN "kernels/ref" EXCLUDE
  PATTERN "kernels/simd" EXCLUDE

  PATTERN "kernels/x86" EXCLUDE
  PATTERN "cli" EXCLUDE
  PATTERN "html" EXCLUDE)
install(TARGETS assay RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY standards/ DESTINATION ${CMAKE_INSTALL_DATADIR}/assay/standards
  FILES_MATCHING PATTERN "*.yaml")
# The Python side and the data it is compared with: assay/conform/api looks for
# them in ../share/assay.
install(DIRECTORY python/assay DESTINATION ${CMAKE_INSTALL_DATADIR}/assay/python
  FILES_MATCHING PATTERN "*.py")
install(DIRECTORY specs DESTINATION ${CMAKE_INSTALL_DATADIR}/assay
  FILES_MATCHING PATTERN "*.yaml" PATTERN "*.json")
install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

# How the package finds what a library links besides ours. A static library's
# private dependencies are linked by its user.
set(find_fmt::fmt "find_dependency(fmt)")
set(find_TBB::tbb "find_dependency(TBB)")
set(find_yaml-cpp "find_dependency(yaml-cpp)")
set(find_nlohmann_json::nlohmann_json "find_dependency(nlohmann_json)")
set(find_ZLIB::ZLIB "find_dependency(ZLIB)")
set(find_PkgConfig::xxhash "assay_find_pkg(xxhash libxxhash)")
set(find_PkgConfig::deflate "assay_find_pkg(deflate libdeflate)")
set(find_PkgConfig::xlsxwriter "assay_find_pkg(xlsxwriter xlsxwriter)")
set(find_PkgConfig::sqlite3 "assay_find_pkg(sqlite3 sqlite3)")
set(find_PkgConfig::hwy "assay_find_pkg(hwy libhwy)")
set(find_MPI::MPI_C "assay_find_mpi(C)")
set(find_MPI::MPI_CXX "assay_find_mpi(CXX)")

# assay_requirements(<name> <out>): lines that say what assay::<name> needs, as
# its target has it.
function(assay_requirements name out)
  set(links "")
  set(finds "")
  get_target_property(target assay::${name} ALIASED_TARGET)
  get_target_property(libraries ${target} INTERFACE_LINK_LIBRARIES)
  foreach(library IN LISTS libraries)
    string(REGEX REPLACE "^\\$<LINK_ONLY:(.*)>$" "\\1" library "${library}")
    if(library MATCHES "^assay_(.*)$")
      list(APPEND links ${CMAKE_MATCH_1})
    elseif(DEFINED find_${library})
      string(APPEND finds "  ${find_${library}}\n")
    elseif(library)
      message(FATAL_ERROR "assay_${name} links ${library}: "
        "cmake/AssayInstall.cmake does not know how its users find it")
    endif()
  endforeach()
  list(JOIN links " " links)
  set(${out} "set(assay_links_${name} ${links})
macro(assay_find_for_${name})
${finds}endmacro()\n" PARENT_SCOPE)
endfunction()

get_property(exported GLOBAL PROPERTY ASSAY_EXPORTED)
list(JOIN exported " " ASSAY_NAMES)
set(ASSAY_REQUIREMENTS "")
foreach(name IN LISTS exported)
  assay_requirements(${name} lines)
  string(APPEND ASSAY_REQUIREMENTS "${lines}")
endforeach()

configure_package_config_file(cmake/assayConfig.cmake.in
  ${CMAKE_BINARY_DIR}/package/assayConfig.cmake
  INSTALL_DESTINATION ${package_dir}
  NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
# Before 1.0 a minor version may change anything.
write_basic_package_version_file(
  ${CMAKE_BINARY_DIR}/package/assayConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/package/assayConfig.cmake
  ${CMAKE_BINARY_DIR}/package/assayConfigVersion.cmake
  DESTINATION ${package_dir})
install(EXPORT assay NAMESPACE assay:: FILE assayTargets.cmake
  DESTINATION ${package_dir})

# Everything that is installed: what `make install` builds.
set(installed_targets assay)
foreach(name IN LISTS exported)
  get_target_property(target assay::${name} ALIASED_TARGET)
  list(APPEND installed_targets ${target})
endforeach()
add_custom_target(installed)
add_dependencies(installed ${installed_targets})
