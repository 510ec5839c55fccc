// SPDX-License-Identifier: Apache-2.0
// What nearly every answer needs, read while the files of the question are: the catalogue of rules takes longer than
// they do. A question makes one before it reads and keeps it until it has answered.
#pragma once

#include <thread>

namespace plimsoll::answer {

class Ahead {
 public:
  // Where no thread is to be had, nothing is read ahead.
  Ahead();

 private:
  std::jthread reader_;
};

}  // namespace plimsoll::answer
