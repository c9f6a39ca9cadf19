# SPDX-License-Identifier: MIT
# Files into the program. As a script, cmake -DOUT=x.inc -DFILES="a;b" -P embed.cmake: writes an array of bytes for each,
# and EMBEDDED_ROWS(ROW) with ROW("name", array) for each. Included: embed(TARGET x.inc FILES..) does so whenever one
# changes.
if(CMAKE_SCRIPT_MODE_FILE)
  set(arrays "")
  set(rows "#define EMBEDDED_ROWS(ROW)")
  set(n 0)
  foreach(file IN LISTS FILES)
    get_filename_component(name ${file} NAME)
    file(READ ${file} hex HEX)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
    string(REGEX REPLACE "(................................................................................)" "\\1\n    " bytes "${bytes}")
    string(APPEND arrays "static const unsigned char embedded_${n}[] = { /* ${name} */\n    ${bytes}0};\n")
    string(APPEND rows " \\\n    ROW(\"${name}\", embedded_${n})")
    math(EXPR n "${n} + 1")
  endforeach()
  file(WRITE ${OUT} "${arrays}${rows}\n")
else()
  set(embed_script ${CMAKE_CURRENT_LIST_FILE})
  function(embed target out)
    add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/embedded/${out} DEPENDS ${ARGN} ${embed_script} VERBATIM
      COMMAND ${CMAKE_COMMAND} -DOUT=${CMAKE_BINARY_DIR}/embedded/${out} "-DFILES=${ARGN}" -P ${embed_script})
    target_sources(${target} PRIVATE ${CMAKE_BINARY_DIR}/embedded/${out})
    target_include_directories(${target} PRIVATE ${CMAKE_BINARY_DIR}/embedded)
  endfunction()
endif()
