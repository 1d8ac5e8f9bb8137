#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "io/hdf5/h5.hpp"
#include "io/input.hpp"
#include "io/output.hpp"

namespace attn::testing {

namespace fs = std::filesystem;

/// A folder of its own for one test, removed with everything in it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "attn-unit-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string path() const { return path_.string(); }

  /// Names of the entries, sorted, including hidden files.
  std::vector<std::string> entries() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path_))
      names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  fs::path path_;
};

inline std::string content_of(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

inline void write_file(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

/// Runs `body` in a child process and returns its status from waitpid; an exception is exit 99.
template <class Body>
int status_of_child(const Body& body) {
  std::fflush(nullptr);  // so that the child does not write it again
  const pid_t child = fork();
  if (child == 0) {
    try {
      body();
      _exit(0);
    } catch (...) {
      _exit(99);
    }
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

/// An HDF5 file with contents that OutputBundle does not write.
class RawFile {
 public:
  explicit RawFile(const std::string& path)
      : file_(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), H5Fclose) {}

  hid_t root() const { return file_.get(); }

  /// Writes `data`, whose elements have type `memory`, as elements of type `stored`.
  void put(const std::string& name, hid_t stored, hid_t memory, const Shape& shape,
           const void* data, const Shape& chunk = {}, bool compressed = false) {
    const io::h5::Handle space = io::h5::dataspace({shape.begin(), shape.end()});
    const io::h5::Handle creation = io::h5::properties(H5P_DATASET_CREATE);
    if (!chunk.empty()) {
      const std::vector<hsize_t> lengths(chunk.begin(), chunk.end());
      H5Pset_chunk(creation.get(), static_cast<int>(lengths.size()), lengths.data());
    }
    if (compressed) H5Pset_deflate(creation.get(), 1);
    const io::h5::Handle link = io::h5::properties(H5P_LINK_CREATE);
    H5Pset_create_intermediate_group(link.get(), 1);
    const io::h5::Handle dataset(H5Dcreate2(root(), name.c_str(), stored, space.get(), link.get(),
                                            creation.get(), H5P_DEFAULT),
                                 H5Dclose);
    if (!dataset) throw std::runtime_error("no dataset " + name);
    if (data != nullptr) H5Dwrite(dataset.get(), memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, data);
  }

  void put(const std::string& name, const Shape& shape, const std::vector<double>& data) {
    put(name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, shape, data.data());
  }

  void attribute(const std::string& object, const std::string& name, hid_t type, const void* value,
                 const std::vector<hsize_t>& shape = {}) {
    const io::h5::Handle at(H5Oopen(root(), object.c_str(), H5P_DEFAULT), H5Oclose);
    const io::h5::Handle space = io::h5::dataspace(shape);
    const io::h5::Handle attribute(
        H5Acreate2(at.get(), name.c_str(), type, space.get(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
    H5Awrite(attribute.get(), type, value);
  }

 private:
  io::h5::Lock lock_;
  io::h5::Handle file_;
};

/// IEEE half precision, as h5py writes NumPy's float16.
inline io::h5::Handle half_type(bool big_endian = false) {
  io::h5::Handle type = io::h5::copied_type(big_endian ? H5T_IEEE_F32BE : H5T_IEEE_F32LE);
  H5Tset_fields(type.get(), 15, 10, 5, 0, 10);
  H5Tset_size(type.get(), 2);
  H5Tset_ebias(type.get(), 15);
  return type;
}

inline io::InputBundle open_input(
    const std::string& input, const std::vector<std::pair<std::string, std::string>>& named = {}) {
  io::InputBundle::Options options;
  if (!input.empty()) options.input = input;
  options.named = named;
  return io::InputBundle(options);
}

inline io::OutputBundle open_output(const std::string& target, bool force = false) {
  io::OutputBundle::Options options;
  options.target = target;
  options.force = force;
  return io::OutputBundle(options);
}

/// All elements of a dataset.
template <class T>
std::vector<T> values_of(const ArraySource& dataset) {
  std::vector<T> values(static_cast<std::size_t>(element_count(dataset.shape())));
  dataset.read(Shape(dataset.shape().size(), 0), dataset.shape(), values.data());
  return values;
}

/// A bundle that holds float32 dataset `name` with the numbers 0, 1, 2, ...
inline void write_counting(const std::string& path, const std::string& name, const Shape& shape) {
  std::vector<float> values(static_cast<std::size_t>(element_count(shape)));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  io::OutputBundle bundle = open_output(path, true);
  bundle.create(name, DType::f32, shape).write(Shape(shape.size(), 0), shape, values.data());
  bundle.commit();
}

}  // namespace attn::testing
