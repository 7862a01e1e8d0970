// What stand_ins.py needs, and takes its functions.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "cpython/classes.h"
#include "frontends/torch/autograd.h"
#include "frontends/torch/bodies.h"
#include "frontends/torch/checkpoints.h"
#include "frontends/torch/modules.h"
#include "module/bindings.h"
#include "recorder/caches.h"
#include "recorder/keyed.h"
#include "recorder/stand_ins.h"

namespace nb = nanobind;

namespace evalframe {

namespace {

void add_stand_ins(const nb::dict& functions) {
  for (const auto& [callable, row] : functions) {
    if (!recorder::add_stand_in(callable.ptr(), row[0].ptr(), nb::cast<int>(row[1]))) throw nb::python_error();
  }
}

}  // namespace

void bind_stand_ins(nb::module_& module) {
  module.def("add_stand_ins", add_stand_ins, nb::arg("functions"), "What is followed in the place of C functions, and which argument each goes through.");
  module.attr("make_class") = nb::borrow(cpython::maker_of_classes());
  module.attr("make_enum") = nb::borrow(cpython::maker_of_enums());
  module.attr("check_class_cell") = nb::borrow(cpython::checker_of_class_cells());
  module.attr("run_class_body") = nb::borrow(cpython::runner_of_bodies());
  module.attr("is_new_result") = nb::borrow(torch::is_new_result());
  module.attr("begin_checkpoint") = nb::borrow(torch::begin_checkpoint());
  module.attr("has_tied_tensors") = nb::borrow(torch::has_tied_tensors());
  module.attr("follows_checkpoint") = nb::borrow(torch::follows_checkpoint());
  module.attr("end_checkpoint") = nb::borrow(torch::end_checkpoint());
  module.attr("begin_body") = nb::borrow(torch::begin_body());
  module.attr("end_body") = nb::borrow(torch::end_body());
  module.attr("body_input") = nb::borrow(torch::body_input());
  module.attr("take_bodies") = nb::borrow(torch::take_bodies());
  module.attr("call_operator") = nb::borrow(torch::call_operator());
  module.attr("follows_body") = nb::borrow(torch::follows_body());
  module.attr("BodyLeft") = nb::borrow(torch::body_left());
  module.attr("places_in_order") = nb::borrow(recorder::places_in_order());
  module.attr("matches") = nb::borrow(recorder::matches_of_pattern());
  module.attr("group") = nb::borrow(recorder::group_of_lazies());
  module.attr("progress") = nb::borrow(recorder::progress_of_lazies());
  module.attr("asked") = nb::borrow(recorder::asked_iterator());
  module.attr("close_with") = nb::borrow(recorder::close_with());
  module.attr("step_of_sort") = nb::borrow(recorder::step_of_sort());
  for (int i = 0; i < static_cast<int>(recorder::CacheStep::kCount); i++) {
    const auto which = static_cast<recorder::CacheStep>(i);
    module.attr(recorder::name_of(which)) = nb::borrow(recorder::cache_function(which));
  }
  for (int i = 0; i < static_cast<int>(recorder::Keyed::kCount); i++) {
    const auto which = static_cast<recorder::Keyed>(i);
    module.attr(recorder::name_of(which)) = nb::borrow(recorder::keyed_function(which));
  }
}

}  // namespace evalframe
