# SPDX-License-Identifier: MIT
# tests/mutate/one_library.cmake -- given to CMake as CMAKE_PROJECT_quern_INCLUDE by run.py: one shared library of all rooms, with every
# symbol in sight, that all tests and the program use. A mutant is then one file compiled and one link, not one link a test; tests that
# include the file are built again.
# QN_COVERAGE=ON counts lines, but for src/cpu, whose tests would take minutes then.
function(qn_one_library)
  add_library(quern_mutant SHARED)
  set(rooms)
  foreach(room IN LISTS QN_ROOMS)
    set_target_properties(room_${room} PROPERTIES C_VISIBILITY_PRESET default)
    target_sources(quern_mutant PRIVATE $<TARGET_OBJECTS:room_${room}>)
    list(APPEND rooms room_${room})
  endforeach()
  target_link_libraries(quern_mutant PRIVATE qn_flags)
  target_link_options(quern_mutant PRIVATE -fuse-ld=lld)
  target_compile_options(room_cpu PRIVATE -O2) # what a test spends its time in

  get_property(tests DIRECTORY tests PROPERTY BUILDSYSTEM_TARGETS)
  set(programs quern)
  foreach(test IN LISTS tests)
    get_target_property(type ${test} TYPE)
    if(type STREQUAL "EXECUTABLE")
      list(APPEND programs ${test})
    endif()
  endforeach()
  foreach(program IN LISTS programs)
    get_target_property(sources ${program} SOURCES)
    list(FILTER sources EXCLUDE REGEX "TARGET_OBJECTS:room_") # not what the fuzz targets share
    get_target_property(libraries ${program} LINK_LIBRARIES)
    list(REMOVE_ITEM libraries quern_static)
    set_target_properties(${program} PROPERTIES SOURCES "${sources}" LINK_LIBRARIES "${libraries};quern_mutant" C_VISIBILITY_PRESET default
      LINK_DEPENDS_NO_SHARED ON)
    target_link_options(${program} PRIVATE -fuse-ld=lld)
  endforeach()
  add_custom_target(mutant_tests DEPENDS ${programs})

  if(QN_COVERAGE)
    list(REMOVE_ITEM rooms room_cpu)
    foreach(target IN LISTS rooms ITEMS quern)
      target_compile_options(${target} PRIVATE -O0 --coverage)
    endforeach()
    target_link_options(quern_mutant PRIVATE --coverage)
    target_link_options(quern PRIVATE --coverage)
  endif()
endfunction()
cmake_language(DEFER CALL qn_one_library)
