# `make package`: a Debian package of what `make install` installs.

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME attnkit)
# Who builds packages for others names an address: -DCPACK_PACKAGE_CONTACT="NAME <ADDRESS>".
if(NOT CPACK_PACKAGE_CONTACT)
  set(CPACK_PACKAGE_CONTACT "The attnkit authors <attnkit@localhost>")
endif()
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "attention, its normalisation schemes and their statistics")
set(CPACK_PACKAGE_DESCRIPTION "Command-line tools and a C++20 library for attention: softmax and
doubly-normalised attention, Sinkhorn's iteration, statistics of explained-away
keys, Fenchel duals, mode collapse and basis paths. Inputs are HDF5, NumPy and
safetensors files.")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
# As small as gzip makes it, in a third of the time.
set(CPACK_DEBIAN_COMPRESSION_TYPE zstd)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "python3, python3-h5py, python3-matplotlib")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS
    "g++, libopenblas-openmp-dev, libhwy-dev, pkgconf, python3-torch, openmpi-bin, strace")
# The dependencies, and the form that Debian gives to documents.
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_CURRENT_LIST_DIR}/deb_depends.cmake)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/deb_documents.cmake)
set(CPACK_ATTN_TOOLS ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
set(CPACK_ATTN_CHANGELOG ${PROJECT_SOURCE_DIR}/CHANGELOG.md)
include(CPack)
