# How everything is compiled and linked.

add_compile_options(-Wall -Wextra -Wpedantic)
if(NOT CMAKE_UNITY_BUILD)
  add_compile_options(-Wshadow)
elseif(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Not the names of another file that is compiled in the same unit.
  add_compile_options(-Wshadow=local)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # Fires inside of std::string on plain assignments (GCC bug 105651).
  add_compile_options(-Wno-restrict)
endif()
if(ATTN_WERROR)
  add_compile_options(-Werror)
endif()

# The Python package is a shared library. By option rather than by CMake's property, which compiles
# executables in another way, so that they could not share precompiled headers.
add_compile_options(-fPIC -fno-semantic-interposition)

# Never -ffast-math: NaN and infinity carry meaning. No contraction either: a product and a sum are
# fused where the code says so, and the bits stay the same from one compiler to the next.
add_compile_options(-fno-math-errno -ffp-contract=off)
add_compile_definitions($<$<CONFIG:Debug>:_GLIBCXX_ASSERTIONS>)

if(ATTN_AVX2)
  # With what Highway asks for beside it, so that AVX2 is its baseline.
  add_compile_options(-march=haswell -maes -mpclmul)
endif()

if(ATTN_SANITIZE)
  # Accesses beyond an object are found by the address sanitizer: to look for them twice takes a
  # seventh of the time to compile.
  add_compile_options(-fsanitize=${ATTN_SANITIZE} -fno-sanitize=object-size
                      -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${ATTN_SANITIZE})
  # Each tool has a copy of the instrumented library: lld links them in a fraction of the time.
  find_program(ATTN_LLD ld.lld)
  mark_as_advanced(ATTN_LLD)
  if(ATTN_LLD)
    add_link_options(-fuse-ld=lld)
  endif()
  add_compile_definitions(_GLIBCXX_ASSERTIONS)
  # Kernels for the most capable and the least capable instruction set of the usual machines:
  # instrumented code takes ten times as long to compile for each, and the plain builds test all.
  add_compile_definitions(HWY_DISABLED_TARGETS=\(HWY_AVX3_DL|HWY_AVX3|HWY_SSE4|HWY_SSSE3\))
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Instrumented code confuses its flow analysis.
    add_compile_options(-Wno-maybe-uninitialized)
  endif()
else()
  # Processors with SSE4 have the kernels for SSSE3, which were seen to be as fast.
  add_compile_definitions(HWY_DISABLED_TARGETS=HWY_SSE4)
  # A tool holds the functions that it may call, not whole files of the library: a quarter less.
  add_compile_options(-ffunction-sections -fdata-sections)
  add_link_options(LINKER:--gc-sections)
endif()

# A tool loads only the libraries that it uses, OpenBLAS from the directory in which it was found.
add_link_options(LINKER:--as-needed LINKER:--enable-new-dtags)
get_filename_component(openblas_directory ${OpenBLAS_LIBRARY} DIRECTORY)
if(NOT openblas_directory IN_LIST CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES)
  set(CMAKE_INSTALL_RPATH ${openblas_directory})
endif()
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)

# A static library of the given sources, or an interface while there are none. The linked libraries
# are public unless PRIVATE stands before them.
function(attn_library name sources)
  if(sources)
    add_library(${name} STATIC ${sources})
    target_link_libraries(${name} PUBLIC ${ARGN})
  else()
    add_library(${name} INTERFACE)
    list(REMOVE_ITEM ARGN PRIVATE)
    target_link_libraries(${name} INTERFACE ${ARGN})
  endif()
endfunction()

# Precompiles these headers for the target. They would hide a missing #include, which the preset
# debug finds.
function(attn_precompile target)
  if(NOT ATTN_PRECOMPILE)
    return()
  endif()
  target_precompile_headers(${target} PRIVATE ${ARGN})
  attn_allow_precompiled_strings(${target})
endfunction()

# GCC 12 forgets that precompiled headers are the system's, and warns inside of std::string (the
# bug above). The builds without precompiled headers keep these warnings.
function(attn_allow_precompiled_strings target)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-stringop-overflow
                                             -Wno-stringop-overread)
  endif()
endfunction()
