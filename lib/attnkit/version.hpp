#pragma once

/// The version of attnkit; CMake and scripts read it here. As long as the major version is 0, a
/// minor version may change the interface. A patch version never does.
#define ATTNKIT_VERSION_MAJOR 0
#define ATTNKIT_VERSION_MINOR 1
#define ATTNKIT_VERSION_PATCH 0
#define ATTNKIT_VERSION "0.1.0"
