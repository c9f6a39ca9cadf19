# cpack -G DEB: `quern` (program, shared library, manual, completions) and `libquern-dev` (headers, static library, pkg-config and
# CMake files). What they need at run time is found by dpkg-shlibdeps.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME quern)
set(CPACK_PACKAGE_VENDOR "The Quern maintainers")
set(CPACK_PACKAGE_CONTACT "The Quern maintainers <maintainers@quern.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Tensor library and language-model runtime")
set(CPACK_RESOURCE_FILE_LICENSE ${CMAKE_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL program library)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON) # and ldconfig's trigger
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME quern)
set(CPACK_DEBIAN_PROGRAM_DESCRIPTION
"Reads language models in GGUF files, generates text with them, trains them,
and shows what they are made of and how fast they could be on a machine.")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libquern-dev)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_DEPENDS
  "quern (= ${PROJECT_VERSION}), libpcre2-dev, libutf8proc-dev, zlib1g-dev")
set(CPACK_DEBIAN_LIBRARY_DESCRIPTION
"For building programs: headers, a static library, and files for pkg-config
and CMake.")
include(CPack)
