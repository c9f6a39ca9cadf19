# Headers, both libraries, pkg-config and find_package(quern).
install(TARGETS quern_shared quern_static EXPORT quernTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET quern)
  install(TARGETS quern RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(DIRECTORY include/quern DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
# Relative to the .pc file, so that an installed tree may be moved and `cmake --install --prefix` holds.
file(RELATIVE_PATH QN_PC_UP /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/quern.pc.in quern.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/quern.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(EXPORT quernTargets NAMESPACE quern:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/quern)
include(CMakePackageConfigHelpers)
configure_package_config_file(cmake/quernConfig.cmake.in quernConfig.cmake INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/quern)
write_basic_package_version_file(quernConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/quernConfig.cmake ${CMAKE_BINARY_DIR}/quernConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/quern)
