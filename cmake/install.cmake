# Headers, both libraries, pkg-config and find_package(quern).
# Component `program` is what runs, `library` what others are built with; cmake/package.cmake makes a package of each.
install(TARGETS quern_shared quern_static EXPORT quernTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT program NAMELINK_COMPONENT library
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library)
if(TARGET quern)
  install(TARGETS quern RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
endif()
if(TARGET manual)
  install(FILES ${QN_MAN_PAGES} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program)
  install(FILES ${QN_MANUAL}/quern DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT program)
  set(zsh site-functions)
  if(CMAKE_INSTALL_PREFIX STREQUAL "/usr" AND EXISTS /etc/debian_version)
    set(zsh vendor-completions) # Debian's zsh looks for packages' files there
  endif()
  install(FILES ${QN_MANUAL}/_quern DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/${zsh} COMPONENT program)
  install(FILES ${QN_MANUAL}/quern.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT program)
endif()
install(FILES README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright COMPONENT program)
install(DIRECTORY include/quern DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library FILES_MATCHING PATTERN "*.h")
# Relative to the .pc file, so that an installed tree may be moved and `cmake --install --prefix` holds.
file(RELATIVE_PATH QN_PC_UP /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/quern.pc.in quern.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/quern.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT library)
install(EXPORT quernTargets NAMESPACE quern:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/quern COMPONENT library)
include(CMakePackageConfigHelpers)
configure_package_config_file(cmake/quernConfig.cmake.in quernConfig.cmake INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/quern)
write_basic_package_version_file(quernConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/quernConfig.cmake ${CMAKE_BINARY_DIR}/quernConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/quern COMPONENT library)
