# Read by cpack: the dependencies of the tools, from the libraries that they are linked with.

set(work ${CPACK_TOPLEVEL_DIRECTORY}/depends)
file(REMOVE_RECURSE ${work})
file(WRITE ${work}/debian/control "Source: attnkit\n\nPackage: attnkit\nArchitecture: any\n")
file(GLOB tools ${CPACK_ATTN_TOOLS}/*)
execute_process(COMMAND dpkg-shlibdeps -O ${tools} WORKING_DIRECTORY ${work}
                OUTPUT_VARIABLE depends ERROR_VARIABLE messages RESULT_VARIABLE failed
                OUTPUT_STRIP_TRAILING_WHITESPACE)
if(failed)
  message(FATAL_ERROR "dpkg-shlibdeps failed:\n${messages}")
endif()
string(REGEX REPLACE "^shlibs:Depends=" "" depends "${depends}")

# libopenblas0 means any build, and is the pthread one where none is installed. The tools load
# OpenBLAS from the directory of the OpenMP build.
string(REGEX REPLACE "libopenblas0([^-a-z0-9]|$)" "libopenblas0-openmp\\1" depends "${depends}")
if(NOT depends MATCHES "libopenblas0-openmp")
  message(FATAL_ERROR "The tools do not depend on libopenblas0-openmp but on: ${depends}")
endif()
set(CPACK_DEBIAN_PACKAGE_DEPENDS "${depends}")
