# Finds the libraries that attnkit is built with. All are looked for before the missing ones are
# named together.

set(missing "")
macro(attn_need found name)
  if(NOT ${found})
    list(APPEND missing "${name}")
  endif()
endmacro()

find_package(Threads QUIET)
attn_need(Threads_FOUND "threads")
find_package(OpenMP QUIET COMPONENTS CXX)
attn_need(OpenMP_CXX_FOUND "OpenMP (with clang: libomp)")
find_package(OpenBLAS QUIET)
attn_need(OpenBLAS_FOUND "OpenBLAS (elsewhere than CMake looks: -DOPENBLAS_ROOT=FOLDER)")
find_package(fmt 9 QUIET)
attn_need(fmt_FOUND "fmt")
find_package(Boost 1.74 QUIET COMPONENTS program_options)
attn_need(Boost_FOUND "Boost.Program_options")
find_package(nlohmann_json 3 QUIET)
attn_need(nlohmann_json_FOUND "nlohmann-json")
find_package(ZLIB QUIET)
attn_need(ZLIB_FOUND "zlib")
find_path(RANDOM123_INCLUDE_DIR Random123/philox.h)
attn_need(RANDOM123_INCLUDE_DIR "Random123")

find_package(PkgConfig QUIET)
attn_need(PKG_CONFIG_FOUND "pkg-config")
if(PKG_CONFIG_FOUND)
  # hdf5-serial first: hdf5.pc may be that of an MPI build.
  pkg_search_module(HDF5 QUIET IMPORTED_TARGET hdf5-serial hdf5)
  attn_need(HDF5_FOUND "HDF5")
  find_library(HDF5_HL_LIBRARY hdf5_hl HINTS ${HDF5_LIBRARY_DIRS})
  attn_need(HDF5_HL_LIBRARY "HDF5's high-level library")
  # The installed CMake package looks for it under the same name.
  pkg_check_modules(ATTNKIT_HWY QUIET IMPORTED_TARGET libhwy)
  attn_need(ATTNKIT_HWY_FOUND "Highway")
  # Not libzip's own CMake files, which insist on its command-line programs.
  pkg_check_modules(LIBZIP QUIET IMPORTED_TARGET libzip)
  attn_need(LIBZIP_FOUND "libzip")
  pkg_check_modules(TOMLPLUSPLUS QUIET IMPORTED_TARGET tomlplusplus)
  attn_need(TOMLPLUSPLUS_FOUND "toml++")
  pkg_check_modules(PUGIXML QUIET IMPORTED_TARGET pugixml)
  attn_need(PUGIXML_FOUND "pugixml")
endif()

if(BUILD_TESTING)
  find_package(doctest QUIET)
  attn_need(doctest_FOUND "doctest")
endif()

if(missing)
  list(JOIN missing ", " missing)
  message(FATAL_ERROR "Not found: ${missing}.\n"
                      "On Debian, scripts/install-deps installs what is needed.")
endif()
