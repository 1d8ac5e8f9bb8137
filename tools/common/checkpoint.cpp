#include "common/checkpoint.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "common/bundles.hpp"
#include "common/run_identity.hpp"
#include "common/shard.hpp"
#include "common/stream_input.hpp"
#include "io/address.hpp"
#include "kernel/stop_flag.hpp"
#include "system/paths.hpp"
#include "system/stop_requests.hpp"
#include "system/system_reason.hpp"
#include "system/unnamed_file.hpp"

namespace attn::tools {
namespace {

constexpr std::size_t piece = std::size_t{1} << 20;
constexpr double least_share = 50;  // from one write to the next, in times of a write
constexpr const char* journal_prefix = ".attn-checkpoint-";

// With --shard that of the shard.
std::string checkpoint_file(const cli::Arguments& arguments) {
  const std::optional<Shard> shard = shard_of(arguments);
  const std::string file = arguments.text("checkpoint");
  return shard ? shard_output(file, *shard) : file;
}

// Shards of a run have units of their own.
std::string run_with_shard(const cli::Arguments& arguments) {
  const std::optional<Shard> shard = shard_of(arguments);
  return shard ? fmt::format("[{},\"shard {}/{}\"]", run_of(arguments), shard->number, shard->count)
               : run_of(arguments);
}

}  // namespace

void require_checkpoint_name(const cli::Arguments& arguments) {
  const std::string file = arguments.text("checkpoint");
  if (file.empty() || file == "-") {
    throw Error(Failure::usage, "--checkpoint is '" + file + "', expected the name of a file");
  }
  if (const auto stream = stream_input(arguments)) {
    throw Error(Failure::usage, "--checkpoint needs inputs that can be read again, but " + *stream);
  }
  std::vector<std::string> inputs = arguments.inputs;
  for (const auto& named : arguments.named_inputs) inputs.push_back(named.second);
  std::vector<std::string> files;
  for (const std::string& input : inputs) files.push_back(io::parse_address(input).file);
  for (const auto& output : {arguments.output, arguments.table_file}) {
    if (output) files.push_back(*output);
  }
  const std::string own = checkpoint_file(arguments);
  if (std::any_of(files.begin(), files.end(),
                  [&](const std::string& other) { return is_same_file(other, own); })) {
    throw Error(Failure::usage, "--checkpoint " + file + " is an input or the output of the run");
  }
}

Checkpoint::Checkpoint(const cli::Arguments& arguments, cli::Report& report)
    : ranks_(kernel::Ranks::current()),
      file_(checkpoint_file(arguments)),
      run_(run_with_shard(arguments)),
      every_(*arguments.number("checkpoint-every")) {
  if (writes()) begin_writing(arguments, report);
  if (ranks_ != nullptr) follow_rank_0(arguments, report);
  written_ = Clock::now();
}

Checkpoint::~Checkpoint() = default;

void Checkpoint::begin_writing(const cli::Arguments& arguments, cli::Report& report) {
  std::error_code failed;
  const bool exists = std::filesystem::exists(file_, failed);
  if (exists && !std::filesystem::is_regular_file(file_, failed)) {
    throw Error(Failure::output, file_ + " is not a regular file");
  }
  // From here on no other process writes the file.
  open_next();
  if (std::filesystem::exists(file_, failed)) open_existing(arguments, report);
  journal_ = open_unnamed(folder_of(without_links(file_)), journal_prefix, journal_name_);
  if (!journal_) refuse(errno);
  journal_name_.remove();  // if it has one: it disappears with the process, however this ends
}

// Called by all ranks when rank 0 has read the file. It writes only after all of them have.
void Checkpoint::follow_rank_0(const cli::Arguments& arguments, cli::Report& report) {
  kernel::gathered(*ranks_, 0);
  std::error_code failed;
  if (!writes() && std::filesystem::exists(file_, failed)) open_existing(arguments, report);
  struct Seen {
    std::int64_t units;
    std::array<char, 16> checksums;
  };
  Seen own{units_done(), {}};
  checksums().copy(own.checksums.data(), own.checksums.size());
  const std::vector<Seen> all = kernel::gathered(*ranks_, own);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank].units == all[0].units && all[rank].checksums == all[0].checksums) continue;
    throw Error(Failure::input, fmt::format("rank {} does not see {} as rank 0 does", rank, file_),
                "name a file in a folder that all machines of the run share");
  }
}

void Checkpoint::open_next() {
  io::OutputBundle::Options options;
  options.target = file_;
  options.force = true;
  next_.emplace(options);
}

void Checkpoint::open_existing(const cli::Arguments& arguments, cli::Report& report) {
  io::InputBundle::Options options = input_options(arguments, report);
  options.input = file_;
  const io::InputBundle bundle(options);
  const auto refuse_it = [&](const std::string& why) {
    throw Error(Failure::output, file_ + why, "remove it, or name another file");
  };
  const std::optional<std::string> run = bundle.text_attribute("attn_checkpoint");
  const std::optional<double> units = bundle.number_attribute("attn_checkpoint_units");
  const std::optional<std::string> checksum = bundle.text_attribute("attn_checkpoint_crc");
  if (!run || !units || !checksum) refuse_it(" exists and is no checkpoint");
  if (*run != run_) {
    refuse_it(" is the checkpoint of another run: " + run_difference(*run, run_));
  }
  exists_ = true;
  constexpr double most_units = 1LL << 53;  // those of which a double holds each
  if (!(*units >= 0 && *units <= most_units && std::floor(*units) == *units)) {
    throw Error(
        Failure::input,
        fmt::format("{} is damaged: it counts {} units, expected a whole number of 0 or more",
                    file_, *units),
        "remove it to begin anew");
  }
  known_ = static_cast<std::int64_t>(*units);
  open_units(bundle);
  read_state(bundle);
  verify(*checksum);
}

// There is no dataset while there are no units.
void Checkpoint::open_units(const io::InputBundle& bundle) {
  stored_.reset();
  stored_bytes_ = 0;
  if (!bundle.has("units")) return;
  stored_.emplace(bundle.dataset("units"));
  const Shape& shape = stored_->shape();
  if (shape.size() != 1 || stored_->dtype() != DType::u8) {
    throw Error(Failure::input, file_ + " is damaged: its units are no bytes");
  }
  stored_bytes_ = shape.front();
}

void Checkpoint::read_state(const io::InputBundle& bundle) {
  if (!bundle.has("state")) return;
  const io::InputDataset stored = bundle.dataset("state");
  if (stored.shape().size() != 1 || stored.dtype() != DType::u8) {
    throw Error(Failure::input, file_ + " is damaged: its state is no bytes");
  }
  state_.resize(static_cast<std::size_t>(stored.shape().front()));
  stored.read_stored({0}, stored.shape(), state_.data());
}

void Checkpoint::verify(const std::string& checksum) {
  std::vector<char> bytes(piece);
  for (std::int64_t at = 0; at < stored_bytes_;) {
    const auto count = std::min(stored_bytes_ - at, static_cast<std::int64_t>(piece));
    stored_->read_stored({at}, {count}, bytes.data());
    crc_.process_bytes(bytes.data(), static_cast<std::size_t>(count));
    at += count;
  }
  if (checksum == checksums()) return;
  throw Error(Failure::input, file_ + " is damaged: its bytes are not those that were written",
              "remove it to begin anew");
}

// Of the units, and of the state after the number of units.
std::string Checkpoint::checksums() const {
  const std::int64_t units = units_done();
  boost::crc_32_type of_others;
  of_others.process_bytes(&units, sizeof(units));
  of_others.process_bytes(state_.data(), state_.size());
  return fmt::format("{:08x}{:08x}", crc_.checksum(), of_others.checksum());
}

void Checkpoint::take_unit(const std::function<void(LoadingArchive&)>& read_parts) {
  LoadingArchive archive([&](void* bytes, std::size_t count) { read(bytes, count); },
                         [&] {
                           return static_cast<std::size_t>(stored_bytes_ - position_) +
                                  (ahead_.size() - ahead_at_);
                         });
  naming_damage([&] { read_parts(archive); });
  ++taken_;
}

void Checkpoint::naming_damage(const std::function<void()>& body) const {
  try {
    body();
  } catch (const Error& error) {
    if (error.failure() != Failure::input) throw;
    throw Error(Failure::input, file_ + " is damaged: " + error.what());
  }
}

void Checkpoint::read(void* bytes, std::size_t count) {
  auto* to = static_cast<char*>(bytes);
  while (count > 0) {
    if (ahead_at_ == ahead_.size()) {
      const auto left = static_cast<std::size_t>(stored_bytes_ - position_);
      if (left < count) throw Error(Failure::input, "it ends within a unit");
      // Large parts go where they belong at once.
      const std::size_t now = count >= piece ? count : std::min(left, piece);
      ahead_.resize(count >= piece ? 0 : now);
      ahead_at_ = 0;
      stored_->read_stored({position_}, {static_cast<Index>(now)},
                           count >= piece ? to : ahead_.data());
      position_ += static_cast<std::int64_t>(now);
      if (count >= piece) return;
    }
    const std::size_t now = std::min(count, ahead_.size() - ahead_at_);
    std::memcpy(to, ahead_.data() + ahead_at_, now);
    ahead_at_ += now;
    to += now;
    count -= now;
  }
}

void Checkpoint::load_state(const std::function<void(LoadingArchive&)>& read_parts) const {
  std::size_t at = 0;
  LoadingArchive archive(
      [&](void* bytes, std::size_t count) {
        if (state_.size() - at < count) throw Error(Failure::input, "it ends within a state");
        std::memcpy(bytes, state_.data() + at, count);
        at += count;
      },
      [&] { return state_.size() - at; });
  naming_damage([&] { read_parts(archive); });
}

void Checkpoint::keep_state(const std::function<void(SavingArchive&)>& write_parts) {
  state_.clear();
  if (!writes()) return;
  SavingArchive archive([&](const void* bytes, std::size_t count) {
    const char* const from = static_cast<const char*>(bytes);
    state_.insert(state_.end(), from, from + count);
  });
  write_parts(archive);
  state_is_new_ = true;
}

void Checkpoint::add_unit(const std::function<void(SavingArchive&)>& write_parts) {
  state_.clear();
  ++added_;
  if (!writes()) return;
  SavingArchive archive([&](const void* bytes, std::size_t count) { append(bytes, count); });
  write_parts(archive);
}

void Checkpoint::append(const void* bytes, std::size_t count) {
  crc_.process_bytes(bytes, count);
  if (behind_.size() + count > piece) flush();
  const char* const from = static_cast<const char*>(bytes);
  if (count < piece) {
    behind_.insert(behind_.end(), from, from + count);
  } else {
    write_journal(from, count);
  }
}

void Checkpoint::flush() {
  write_journal(behind_.data(), behind_.size());
  behind_.clear();
}

void Checkpoint::write_journal(const char* from, std::size_t count) {
  while (count > 0) {
    const ssize_t put = ::write(journal_.get(), from, count);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) refuse(errno);
    from += put;
    count -= static_cast<std::size_t>(put);
    journal_bytes_ += put;
  }
}

void Checkpoint::refuse(int error_number) const {
  throw Error(Failure::output, "cannot write " + file_ + ": " + system_reason(error_number));
}

bool Checkpoint::is_due() const {
  if (ranks_ == nullptr) return time_has_come();
  struct Wish {
    bool write;
    bool stop;
  };
  const std::vector<Wish> all =
      kernel::gathered(*ranks_, Wish{time_has_come(), StopRequests::asked()});
  if (std::any_of(all.begin(), all.end(), [](const Wish& wish) { return wish.stop; })) {
    throw kernel::Stopped();
  }
  return all.front().write;
}

void Checkpoint::stop_if_asked() const {
  if (ranks_ == nullptr) return kernel::stop_if_asked();
  is_due();
}

bool Checkpoint::time_has_come() const {
  const double since = std::chrono::duration<double>(Clock::now() - written_).count();
  return every_ == 0 || since >= std::max(every_, least_share * write_seconds_);
}

void Checkpoint::write_if_due() {
  if ((added_ > 0 || state_is_new_) && time_has_come()) write();
}

void Checkpoint::write() {
  if (!writes()) return;
  const auto start = Clock::now();
  if (added_ > 0 || state_is_new_ || !exists_) {
    flush();
    const std::int64_t bytes = stored_bytes_ + journal_bytes_;
    if (bytes > 0) {
      io::OutputDataset units = next_->create("units", DType::u8, {bytes});
      copy_units(units);
    }
    if (const auto size = static_cast<Index>(state_.size()); size > 0) {
      next_->create("state", DType::u8, {size}).write_stored({0}, {size}, state_.data());
    }
    next_->attribute("attn_checkpoint", run_);
    next_->attribute("attn_checkpoint_units", std::int64_t{units_done()});
    next_->attribute("attn_checkpoint_crc", checksums());
    next_->commit();
    begin_after_write();
  }
  written_ = Clock::now();
  write_seconds_ = std::chrono::duration<double>(written_ - start).count();
}

// What was in the journal is in the file now.
void Checkpoint::begin_after_write() {
  known_ += std::exchange(added_, 0);
  taken_ = known_;
  open_next();
  io::InputBundle::Options options;
  options.input = file_;
  open_units(io::InputBundle(options));
  position_ = stored_bytes_;
  journal_bytes_ = 0;
  if (ftruncate(journal_.get(), 0) != 0 || lseek(journal_.get(), 0, SEEK_SET) != 0) refuse(errno);
  exists_ = true;
  state_is_new_ = false;
}

void Checkpoint::copy_units(io::OutputDataset& to) {
  std::vector<char> bytes(piece);
  std::int64_t at = 0;
  while (at < stored_bytes_ + journal_bytes_) {
    const bool stored = at < stored_bytes_;
    const std::int64_t end = stored ? stored_bytes_ : stored_bytes_ + journal_bytes_;
    std::int64_t count = std::min(end - at, static_cast<std::int64_t>(piece));
    if (stored) {
      stored_->read_stored({at}, {count}, bytes.data());
    } else {
      count =
          pread(journal_.get(), bytes.data(), static_cast<std::size_t>(count), at - stored_bytes_);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) refuse(count < 0 ? errno : EIO);
    }
    to.write_stored({at}, {count}, bytes.data());
    at += count;
  }
}

void Checkpoint::remove() {
  if (!writes()) return;
  stored_.reset();
  // Somebody else may have removed it.
  if (exists_ && unlink(without_links(file_).c_str()) != 0 && errno != ENOENT) refuse(errno);
  exists_ = false;
  next_.reset();
}

}  // namespace attn::tools
