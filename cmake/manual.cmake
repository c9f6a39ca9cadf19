# Manual pages and completions come from the program's own option tables: it is run once it is linked.
if(CMAKE_CROSSCOMPILING AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
  message(STATUS "No manual pages and completions: what is built for another machine cannot be asked for them")
  return()
endif()

file(STRINGS ${CMAKE_SOURCE_DIR}/src/cli/commands.def rows REGEX "^QN_COMMAND")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/cli/commands.def)
set(QN_MANUAL ${CMAKE_BINARY_DIR}/manual)
set(QN_MAN_PAGES ${QN_MANUAL}/quern.1)
set(commands COMMAND quern help --man > ${QN_MANUAL}/quern.1)
foreach(row IN LISTS rows)
  string(REGEX REPLACE "^QN_COMMAND\\(([a-z_]+).*" "\\1" name "${row}")
  string(REPLACE "_" "-" name ${name})
  list(APPEND QN_MAN_PAGES ${QN_MANUAL}/quern-${name}.1)
  list(APPEND commands COMMAND quern help --man ${name} > ${QN_MANUAL}/quern-${name}.1)
endforeach()
# Under the names that the shells look for.
set(QN_COMPLETIONS ${QN_MANUAL}/quern ${QN_MANUAL}/_quern ${QN_MANUAL}/quern.fish)
list(APPEND commands COMMAND quern completion bash > ${QN_MANUAL}/quern COMMAND quern completion zsh > ${QN_MANUAL}/_quern
  COMMAND quern completion fish > ${QN_MANUAL}/quern.fish)
file(MAKE_DIRECTORY ${QN_MANUAL})
add_custom_command(OUTPUT ${QN_MAN_PAGES} ${QN_COMPLETIONS} ${commands} DEPENDS quern VERBATIM
  COMMENT "Writing manual pages and completions")
add_custom_target(manual ALL DEPENDS ${QN_MAN_PAGES} ${QN_COMPLETIONS})
