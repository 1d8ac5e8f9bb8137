#pragma once

#include <string>

#include "system/descriptor.hpp"
#include "system/temporary.hpp"

namespace attn {

/// Makes the empty file `folder/.NAME.tmp`, in which the file `name` of that folder is made, opens
/// it for reading and writing, and holds it by flock(2) until the descriptor is closed. No two
/// processes can then make the same file at the same time. A file left by a killed process has no
/// holder, and is removed first. `temporary` takes the name.
///
/// The name is random, `folder/.NAME.XXXXXX.tmp`, and keeps nobody out, where this is impossible:
/// on file systems without locks, for names of more than NAME_MAX - 5 bytes, and if a file left
/// there belongs to another user. On failure the result is empty and errno is set, to EWOULDBLOCK
/// if another process holds the file.
Descriptor hold_temporary(const std::string& folder, const std::string& name, unsigned mode,
                          TemporaryName& temporary);

}  // namespace attn
