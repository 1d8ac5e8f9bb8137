#pragma once

// A contender of tests/bench/run: a process that reads commands from standard input, so that
// contenders with environments of their own can be timed in turn. worker.py is the same for Python.
//
//   set SCHEME DIRECTION HEADS LENGTH DEPTH FOLDER   -> the name of the fastest variant
//   time                                             -> seconds of one run of that
//
// A DIRECTION is forward or backward, then options, as in "forward,queries=8192" (LENGTH without).
// Inputs and answers are files FOLDER/NAME of raw numbers: of attention float32, (heads, length or
// queries, depth). Solvers (solvers.py) have in place of a direction a format and options, as in
// "f64,reg=0.05,iterations=20", and more than one shape.

#include <chrono>
#include <fstream>
#include <functional>
#include <iostream>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace bench {

struct Problem {
  std::string scheme;
  std::string direction;  ///< backward: forward too
  long heads = 1, length = 1, depth = 1;
  std::string folder;

  long size() const { return heads * length * depth; }

  template <class T = float>
  std::vector<T> input(const std::string& name) const {
    return input<T>(name, size());
  }

  template <class T>
  std::vector<T> input(const std::string& name, long count) const {
    std::vector<T> values(static_cast<std::size_t>(count));
    const auto bytes = static_cast<std::streamsize>(values.size() * sizeof(T));
    std::ifstream file(folder + "/" + name, std::ios::binary);
    if (!file.read(reinterpret_cast<char*>(values.data()), bytes)) {
      throw std::runtime_error("cannot read " + folder + "/" + name);
    }
    return values;
  }

  /// The value of `direction`, or `usual` if it is absent.
  double option(const std::string& name, double usual) const {
    std::istringstream words(direction);
    for (std::string word; std::getline(words, word, ',');) {
      if (word.rfind(name + "=", 0) == 0) return std::stod(word.substr(name.size() + 1));
    }
    return usual;
  }
};

/// A way to compute it, which leaves its answers where Contest says.
struct Variant {
  std::string name;
  std::function<void()> run;
};

/// Numbers to be compared, which stay where they are.
struct Answer {
  template <class T>
  Answer(std::string its_name, const std::vector<T>* values)
      : name(std::move(its_name)), write([values](std::ostream& file) {
          file.write(reinterpret_cast<const char*>(values->data()),
                     static_cast<std::streamsize>(values->size() * sizeof(T)));
        }) {}

  std::string name;
  std::function<void(std::ostream&)> write;
};

struct Contest {
  std::vector<Variant> variants;
  std::vector<Answer> answers;
};

inline double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// The variant whose second run is shortest. A first run that takes a second or longer also counts
/// as the second.
inline Variant fastest(const std::vector<Variant>& variants) {
  if (variants.size() == 1) return variants.front();
  Variant best;
  double least = std::numeric_limits<double>::infinity();
  for (const Variant& variant : variants) {
    double seconds = seconds_of(variant.run);
    if (seconds < 1) seconds = seconds_of(variant.run);
    if (seconds < least) {
      least = seconds;
      best = variant;
    }
  }
  return best;
}

/// Serves until standard input ends. What `prepare` sets up stays out of the time.
inline int serve(const std::function<Contest(const Problem&)>& prepare) {
  Variant chosen;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string verb;
    words >> verb;
    if (verb == "set") {
      Problem problem;
      words >> problem.scheme >> problem.direction >> problem.heads >> problem.length >>
          problem.depth >> problem.folder;
      const Contest contest = prepare(problem);
      chosen = fastest(contest.variants);
      chosen.run();
      for (const Answer& answer : contest.answers) {
        std::ofstream file(problem.folder + "/" + answer.name, std::ios::binary);
        answer.write(file);
      }
      std::cout << chosen.name << std::endl;
    } else {
      std::cout << seconds_of(chosen.run) << std::endl;
    }
  }
  return 0;
}

}  // namespace bench
