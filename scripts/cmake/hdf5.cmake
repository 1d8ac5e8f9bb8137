# Defines attn-hdf5: HDF5 and its high-level library.
#
# They are linked statically where that is possible. Debian's shared library loads 35 others, for
# drivers of remote files that no tool uses: half of the time in which a tool starts.

option(ATTN_SHARED_HDF5 "Use HDF5 as a shared library, even if it can be linked statically" OFF)

add_library(attn-hdf5 INTERFACE)
target_include_directories(attn-hdf5 SYSTEM INTERFACE ${HDF5_INCLUDE_DIRS})

find_library(HDF5_STATIC_LIBRARY libhdf5.a HINTS ${HDF5_LIBRARY_DIRS})
find_library(HDF5_HL_STATIC_LIBRARY libhdf5_hl.a HINTS ${HDF5_LIBRARY_DIRS})
mark_as_advanced(HDF5_STATIC_LIBRARY HDF5_HL_STATIC_LIBRARY)
if(HDF5_STATIC_LIBRARY AND HDF5_HL_STATIC_LIBRARY AND NOT ATTN_SHARED_HDF5)
  include(CheckCXXSourceCompiles)
  set(static_hdf5 ${HDF5_HL_STATIC_LIBRARY} ${HDF5_STATIC_LIBRARY} sz ZLIB::ZLIB ${CMAKE_DL_LIBS} m)
  # Plugins of filters call HDF5: the one that has loaded them, not another copy.
  set(exported LINKER:--export-dynamic-symbol=H5*)
  set(CMAKE_REQUIRED_INCLUDES ${HDF5_INCLUDE_DIRS})
  set(CMAKE_REQUIRED_LIBRARIES ${static_hdf5})
  set(CMAKE_REQUIRED_LINK_OPTIONS ${exported})
  check_cxx_source_compiles("#include <hdf5_hl.h>
    int main() { return H5open() < 0 || H5DSis_scale(0) > 0; }" ATTN_LINKS_STATIC_HDF5)
  unset(CMAKE_REQUIRED_INCLUDES)
  unset(CMAKE_REQUIRED_LIBRARIES)
  unset(CMAKE_REQUIRED_LINK_OPTIONS)
endif()
if(ATTN_LINKS_STATIC_HDF5 AND NOT ATTN_SHARED_HDF5)
  # A module of Python can have it by lib/python/standard_streams.cpp, and shows nothing of it to others.
  set(is_module $<STREQUAL:$<TARGET_PROPERTY:TYPE>,MODULE_LIBRARY>)
  target_link_libraries(attn-hdf5 INTERFACE ${static_hdf5})
  target_link_options(attn-hdf5 INTERFACE $<$<NOT:${is_module}>:${exported}>)
else()
  target_link_libraries(attn-hdf5 INTERFACE PkgConfig::HDF5 ${HDF5_HL_LIBRARY})
endif()
