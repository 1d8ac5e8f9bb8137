#include "common/runs/checkpoint.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "common/frame/bundles.hpp"
#include "common/frame/stream_input.hpp"
#include "common/runs/run_identity.hpp"
#include "common/shards/shard.hpp"
#include "io/address.hpp"
#include "system/paths.hpp"

namespace attn::tools {
namespace {

constexpr double least_share = 50;  // from one write to the next, in times of a write

// With --shard, the shard's checkpoint.
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

boost::crc_32_type crc_of_count(std::int64_t units) {
  boost::crc_32_type crc;
  crc.process_bytes(&units, sizeof(units));
  return crc;
}

// Checksums of the units, and of the state that follows their number.
std::string checksums(const boost::crc_32_type& of_units, const boost::crc_32_type& of_others) {
  return fmt::format("{:08x}{:08x}", of_units.checksum(), of_others.checksum());
}

LoadingArchive loading(StoredBytes& from) {
  return LoadingArchive(
      [&from](void* bytes, std::size_t count) {
        bytes == nullptr ? from.skip(count) : from.read(bytes, count);
      },
      [&from] { return static_cast<std::size_t>(from.left()); });
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
    : ranks_(Ranks::current()),
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
  only_.emplace(file_);
  open_next();
  if (std::filesystem::exists(file_, failed)) open_existing(arguments, report);
  journal_.open(file_);
}

// Called by all ranks when rank 0 has read the file. It writes only after all of them have.
void Checkpoint::follow_rank_0(const cli::Arguments& arguments, cli::Report& report) {
  gathered(*ranks_, 0);
  std::error_code failed;
  if (!writes() && std::filesystem::exists(file_, failed)) open_existing(arguments, report);
  struct Seen {
    std::int64_t units;
    std::array<char, 16> checksums;
  };
  Seen own{units_done(), {}};
  checksums_.copy(own.checksums.data(), own.checksums.size());
  const std::vector<Seen> all = gathered(*ranks_, own);
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
  checksums_ = *checksum;
  open_units(bundle);
  open_state(bundle);
  // Other ranks find out whether they see the same checksums.
  if (writes()) verify();
}

// There is no dataset while there are no units.
void Checkpoint::open_units(const io::InputBundle& bundle) {
  stored_.reset();
  if (bundle.has("units")) stored_.emplace(bundle.dataset("units"), file_, "its units are");
}

void Checkpoint::open_state(const io::InputBundle& bundle) {
  stored_state_.reset();
  if (bundle.has("state")) stored_state_.emplace(bundle.dataset("state"), file_, "its state is");
}

void Checkpoint::verify() {
  if (stored_) {
    stored_->for_pieces(
        [&](std::span<char> bytes) { crc_.process_bytes(bytes.data(), bytes.size()); });
  }
  boost::crc_32_type of_others = crc_of_count(units_done());
  if (stored_state_) {
    stored_state_->for_pieces(
        [&](std::span<char> bytes) { of_others.process_bytes(bytes.data(), bytes.size()); });
  }
  if (checksums_ == checksums(crc_, of_others)) return;
  throw Error(Failure::input, file_ + " is damaged: its bytes are not those that were written",
              "remove it to begin anew");
}

void Checkpoint::take_unit(const std::function<void(LoadingArchive&)>& read_parts) {
  if (!stored_) throw Error(Failure::input, file_ + " is damaged: it has no units");
  naming_damage([&] {
    LoadingArchive archive = loading(*stored_);
    read_parts(archive);
  });
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

void Checkpoint::load_state(const std::function<void(LoadingArchive&)>& read_parts) const {
  if (stored_state_) {
    StoredBytes from_the_first = *stored_state_;
    naming_damage([&] {
      LoadingArchive archive = loading(from_the_first);
      read_parts(archive);
    });
    return;
  }
  load_archived(state_, read_parts);
}

void Checkpoint::drop_state() {
  stored_state_.reset();
  state_.clear();
}

void Checkpoint::keep_state(const Save& write_parts) {
  drop_state();
  if (!writes()) return;
  state_ = archived_bytes(write_parts);
  state_is_new_ = true;
}

void Checkpoint::add_unit(const Save& write_parts) {
  drop_state();
  ++added_;
  if (!writes()) return;
  SavingArchive archive([this](const void* bytes, std::size_t count) {
    crc_.process_bytes(bytes, count);
    journal_.append(bytes, count);
  });
  write_parts(archive);
}

bool Checkpoint::is_due() const {
  const double since = std::chrono::duration<double>(Clock::now() - written_).count();
  return writes() && (every_ == 0 || since >= std::max(every_, least_share * write_seconds_));
}

void Checkpoint::write_if_due() {
  if ((added_ > 0 || state_is_new_) && is_due()) write();
}

void Checkpoint::write() {
  if (!writes()) return;
  if (added_ == 0 && !state_is_new_ && exists_) {
    written_ = Clock::now();
    write_seconds_ = 0;
    return;
  }
  const auto start = Clock::now();
  const std::int64_t bytes = (stored_ ? stored_->size() : 0) + journal_.size();
  if (bytes > 0) {
    io::OutputDataset units = next_->create("units", DType::u8, {bytes});
    copy_units(units);
  }
  checksums_ = checksums(crc_, write_state());
  next_->attribute("attn_checkpoint", run_);
  next_->attribute("attn_checkpoint_units", std::int64_t{units_done()});
  next_->attribute("attn_checkpoint_crc", checksums_);
  next_->commit();
  begin_after_write();
  written_ = Clock::now();
  write_seconds_ = std::chrono::duration<double>(written_ - start).count();
}

// Returns the checksum of the number of units and of the state.
boost::crc_32_type Checkpoint::write_state() {
  boost::crc_32_type crc = crc_of_count(units_done());
  const auto size =
      stored_state_ ? stored_state_->size() : static_cast<std::int64_t>(state_.size());
  if (size == 0) return crc;
  io::OutputDataset state = next_->create("state", DType::u8, {size});
  Index at = 0;
  const auto append = [&](std::span<const char> bytes) {
    crc.process_bytes(bytes.data(), bytes.size());
    const auto count = static_cast<Index>(bytes.size());
    state.write_stored({at}, {count}, bytes.data());
    at += count;
  };
  stored_state_ ? stored_state_->for_pieces(append) : append(state_);
  return crc;
}

// What was in the journal is in the file now.
void Checkpoint::begin_after_write() {
  known_ += std::exchange(added_, 0);
  taken_ = known_;
  open_next();
  io::InputBundle::Options options;
  options.input = file_;
  const io::InputBundle bundle(options);
  open_units(bundle);
  if (state_.empty()) open_state(bundle);
  journal_.clear();
  exists_ = true;
  state_is_new_ = false;
}

void Checkpoint::copy_units(io::OutputDataset& to) {
  Index at = 0;
  const auto append = [&](std::span<const char> bytes) {
    const auto count = static_cast<Index>(bytes.size());
    to.write_stored({at}, {count}, bytes.data());
    at += count;
  };
  if (stored_) stored_->for_pieces(append);
  journal_.for_pieces(append);
}

void Checkpoint::remove() {
  if (!writes()) return;
  stored_.reset();
  stored_state_.reset();
  // Somebody else may have removed it.
  if (exists_ && unlink(without_links(file_).c_str()) != 0 && errno != ENOENT) {
    refuse_checkpoint(file_, errno);
  }
  exists_ = false;
  next_.reset();
}

}  // namespace attn::tools
