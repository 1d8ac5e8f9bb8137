# What `make install` installs: the tools, dump-attention, attn-plot, the library with its headers and its
# descriptions for CMake and pkg-config, man pages, completions, pages and examples. The library is a
# component of its own, which `make dist` and `make wheel` leave out.

# `make install` builds what it installs, and no tests.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME tools)
get_property(tools GLOBAL PROPERTY ATTN_TOOLS)
install(TARGETS ${tools} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

if(ATTN_MPI)
  install(TARGETS attn-mpi LIBRARY DESTINATION libexec/attnkit)
endif()

# --- Commands in Python. They find their code and the version in the share folder beside bin. --------

file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/version CONTENT "${PROJECT_VERSION}\n")
install(PROGRAMS ${PROJECT_SOURCE_DIR}/scripts/dump-attention ${PROJECT_SOURCE_DIR}/scripts/attn-plot
        DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/scripts/dump_attention
        DESTINATION ${CMAKE_INSTALL_DATADIR}/attnkit/python FILES_MATCHING PATTERN *.py)
# Its modules that attnkit.torch.observe uses, too.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/lib/python/attnkit/_recording/
        DESTINATION ${CMAKE_INSTALL_DATADIR}/attnkit/python/dump_attention
        FILES_MATCHING PATTERN *.py PATTERN __init__.py EXCLUDE)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/scripts/plot DESTINATION ${CMAKE_INSTALL_DATADIR}/attnkit
        FILES_MATCHING PATTERN *.py)
install(FILES ${PROJECT_BINARY_DIR}/version DESTINATION ${CMAKE_INSTALL_DATADIR}/attnkit)

# --- Library. -----------------------------------------------------------------------------------

set(package_directory ${CMAKE_INSTALL_LIBDIR}/cmake/attnkit)
install(TARGETS attn-math EXPORT attnkit-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        COMPONENT library)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/lib/attnkit DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        COMPONENT library FILES_MATCHING PATTERN *.hpp)
install(EXPORT attnkit-targets NAMESPACE attnkit:: DESTINATION ${package_directory}
        COMPONENT library)

include(CMakePackageConfigHelpers)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/attnkit-config.cmake.in
                              attnkit-config.cmake INSTALL_DESTINATION ${package_directory}
                              NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(attnkit-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/attnkit-config.cmake
              ${PROJECT_BINARY_DIR}/attnkit-config-version.cmake
              ${CMAKE_CURRENT_LIST_DIR}/FindOpenBLAS.cmake
        DESTINATION ${package_directory} COMPONENT library)

# The only library is an archive, so that users need all that it needs: in Libs, since few call
# pkg-config with --static. The prefix is found from the place of the file, so that `make install
# PREFIX=...` and a package need not write it.
set(pkgconfig_directory ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH pc_prefix /${pkgconfig_directory} /)
string(REGEX REPLACE "/$" "" pc_prefix ${pc_prefix})
set(pc_openblas "-L${openblas_directory} -lopenblas")
if(CMAKE_INSTALL_RPATH)
  string(APPEND pc_openblas " -Wl,-rpath,${openblas_directory}")
endif()
configure_file(${CMAKE_CURRENT_LIST_DIR}/attnkit.pc.in attnkit.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/attnkit.pc DESTINATION ${pkgconfig_directory} COMPONENT library)

# --- Documents: the tools write their own man pages and completions. ----------------------------

set(documents ${PROJECT_BINARY_DIR}/documents)
install(CODE "
  execute_process(COMMAND ${PROJECT_SOURCE_DIR}/scripts/write-documents
                          ${CMAKE_RUNTIME_OUTPUT_DIRECTORY} ${documents} COMMAND_ERROR_IS_FATAL ANY)")
install(DIRECTORY ${documents}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR})
install(DIRECTORY ${documents}/completion/ DESTINATION ${CMAKE_INSTALL_DATADIR})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)

# --- Pages with their folders, so that links from page to page hold, and what their examples read. --

file(GLOB pages RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS *.md data/*.md data/claims/*.md
     data/figures/*.png lib/*.md lib/*/*.md scripts/*.md scripts/*/*.md tests/*.md tests/bench/*.md
     tools/*.md tools/guide/*.md tools/attn_view/page/*.md .github/*.md LICENSE)
foreach(page IN LISTS pages)
  get_filename_component(folder ${page} DIRECTORY)
  install(FILES ${PROJECT_SOURCE_DIR}/${page} DESTINATION ${CMAKE_INSTALL_DOCDIR}/${folder})
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/data/passage.h5
              ${PROJECT_SOURCE_DIR}/data/trained.h5 ${PROJECT_SOURCE_DIR}/scripts/sweep.mk
        DESTINATION ${CMAKE_INSTALL_DATADIR}/attnkit)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/scripts/slurm DESTINATION ${CMAKE_INSTALL_DATADIR}/attnkit
        USE_SOURCE_PERMISSIONS PATTERN *.md EXCLUDE)
