# Finds OpenBLAS and defines OpenBLAS::OpenBLAS. Searched in this order:
#
#   1. OPENBLAS_ROOT, a variable of CMake or of the environment;
#   2. the directory in which Debian keeps the OpenMP build. Debian's alternatives may point
#      libopenblas.so at the pthread build, whose threads would compete with those of attnkit;
#   3. CMake's usual places (CMAKE_PREFIX_PATH, ...) and the directories that openblas.pc names.
#
# This file is installed with the CMake package of attnkit, too.

set(_openblas_root ${OPENBLAS_ROOT} $ENV{OPENBLAS_ROOT})
set(_openblas_header_folders include include/openblas include/openblas-openmp openblas)
set(_openblas_library_folders lib lib64)

if(_openblas_root)
  find_path(OpenBLAS_INCLUDE_DIR cblas.h NO_DEFAULT_PATH PATHS ${_openblas_root}
            PATH_SUFFIXES ${_openblas_header_folders})
  find_library(OpenBLAS_LIBRARY openblas NO_DEFAULT_PATH PATHS ${_openblas_root}
               PATH_SUFFIXES ${_openblas_library_folders})
endif()

find_path(OpenBLAS_INCLUDE_DIR cblas.h NO_DEFAULT_PATH
          PATHS /usr/include/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-openmp)
find_library(OpenBLAS_LIBRARY openblas NO_DEFAULT_PATH
             PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-openmp)

find_package(PkgConfig QUIET)
if(PKG_CONFIG_FOUND)
  pkg_check_modules(_openblas QUIET openblas)
endif()
find_path(OpenBLAS_INCLUDE_DIR cblas.h HINTS ${_openblas_INCLUDE_DIRS}
          PATH_SUFFIXES openblas openblas-openmp)
find_library(OpenBLAS_LIBRARY openblas HINTS ${_openblas_LIBRARY_DIRS})
mark_as_advanced(OpenBLAS_INCLUDE_DIR OpenBLAS_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OpenBLAS REQUIRED_VARS OpenBLAS_LIBRARY OpenBLAS_INCLUDE_DIR)

if(OpenBLAS_FOUND AND NOT TARGET OpenBLAS::OpenBLAS)
  add_library(OpenBLAS::OpenBLAS UNKNOWN IMPORTED)
  set_target_properties(OpenBLAS::OpenBLAS PROPERTIES
    IMPORTED_LOCATION ${OpenBLAS_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${OpenBLAS_INCLUDE_DIR})
endif()
