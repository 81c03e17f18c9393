# Helpers that keep each folder's CMakeLists.txt to one call.

include(GNUInstallDirs)

# assay_exported(<target> <name>): installed, and assay::<name> to whoever finds
# the package (cmake/AssayInstall.cmake) or adds this folder to a build.
function(assay_exported target name)
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  add_library(assay::${name} ALIAS ${target})
  install(TARGETS ${target} EXPORT assay
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  set_property(GLOBAL APPEND PROPERTY ASSAY_EXPORTED ${name})
endfunction()

# Numerics first: no contraction of a*b+c behind the source's back (results
# would depend on the ISA the compiler was told about), no -ffast-math. Installed
# with the libraries: of an inline function of our headers the linker keeps one
# copy, and it may be the user's. Warnings are our own affair.
add_library(assay_flags INTERFACE)
target_compile_features(assay_flags INTERFACE cxx_std_20)
target_compile_options(assay_flags INTERFACE
  "$<BUILD_INTERFACE:-Wall;-Wextra;-Wshadow;-Wno-missing-field-initializers>"
  -ffp-contract=off)
if(ASSAY_WERROR)
  target_compile_options(assay_flags INTERFACE $<BUILD_INTERFACE:-Werror>)
endif()
if(ASSAY_SANITIZE)
  target_compile_options(assay_flags INTERFACE
    -fsanitize=${ASSAY_SANITIZE} -fno-sanitize-recover=all
    -fno-omit-frame-pointer)
  target_link_options(assay_flags INTERFACE -fsanitize=${ASSAY_SANITIZE})
endif()
if(ASSAY_FUZZ)
  target_compile_options(assay_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
target_include_directories(assay_flags INTERFACE
  $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
assay_exported(assay_flags flags)

# assay_library(<folder> LINKS <assay folders it may include> PRIVATE <libs>
#               WITHOUT <beginnings of file names>)
# Compiles every .cpp of the current folder into the static library
# assay_<folder>. LINKS are public, PRIVATE third-party libraries stay out of
# the headers. WITHOUT names the files of an optional dependency that is not
# there, or what stands in for it.
function(assay_library folder)
  cmake_parse_arguments(ARG "" "" "LINKS;PRIVATE;WITHOUT" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/main\\.cpp$")
  foreach(beginning ${ARG_WITHOUT})
    list(FILTER sources EXCLUDE REGEX "/${beginning}[^/]*$")
  endforeach()
  if(NOT sources)
    file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/empty.cpp "")
    set(sources ${CMAKE_CURRENT_BINARY_DIR}/empty.cpp)
  endif()
  add_library(assay_${folder} STATIC ${sources})
  list(TRANSFORM ARG_LINKS PREPEND assay_)
  target_link_libraries(assay_${folder}
    PUBLIC assay_flags ${ARG_LINKS} PRIVATE ${ARG_PRIVATE})
  if(NOT folder STREQUAL "cli")  # the program's own
    assay_exported(assay_${folder} ${folder})
  endif()
endfunction()

# assay_test(<folder> LINKS <assay folders> PRIVATE <libs>)
# One GoogleTest binary per folder of tests/: every *_test.cpp below the
# current folder. ASSAY_TEST_DATA names tests/data.
function(assay_test folder)
  cmake_parse_arguments(ARG "" "" "LINKS;PRIVATE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS
       ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  if(NOT sources)
    return()
  endif()
  add_executable(${folder}_test ${sources})
  list(TRANSFORM ARG_LINKS PREPEND assay_)
  target_link_libraries(${folder}_test
    PRIVATE ${ARG_LINKS} ${ARG_PRIVATE} GTest::gmock GTest::gtest_main)
  target_compile_definitions(${folder}_test PRIVATE
    ASSAY_TEST_DATA="${CMAKE_SOURCE_DIR}/tests/data"
    ASSAY_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  add_test(NAME ${folder} COMMAND ${folder}_test --gtest_brief=1)
endfunction()

# assay_embed_yaml(<folder> <dir> HEADER <h> NAMESPACE <n> TYPE <t> FUNCTION <f>)
# Compiles the .yaml files of <dir> into assay_<folder> (cmake/EmbedYaml.cmake).
function(assay_embed_yaml folder dir)
  cmake_parse_arguments(ARG "" "HEADER;NAMESPACE;TYPE;FUNCTION" "" ${ARGN})
  file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${dir}/*.yaml)
  set(embedded ${CMAKE_CURRENT_BINARY_DIR}/${ARG_FUNCTION}.cpp)
  set(script ${CMAKE_SOURCE_DIR}/cmake/EmbedYaml.cmake)
  add_custom_command(
    OUTPUT ${embedded}
    COMMAND ${CMAKE_COMMAND} -DDIR=${CMAKE_SOURCE_DIR}/${dir}
            -DOUTPUT=${embedded} -DHEADER=${ARG_HEADER}
            -DNAMESPACE=${ARG_NAMESPACE} -DTYPE=${ARG_TYPE}
            -DFUNCTION=${ARG_FUNCTION} -P ${script}
    DEPENDS ${files} ${script} COMMENT "Embedding ${dir}/*.yaml" VERBATIM)
  target_sources(assay_${folder} PRIVATE ${embedded})
endfunction()
