"""Initialisers of records, which Python keeps compiled: `npu.records` gives them the names of fields.

Made by `python -m tests.support.initialisers`. To compile their text takes a process as long as to load twenty modules.
"""

# mypy: ignore-errors
# ruff: noqa: E501, F821
# fmt: off


def assign_10(self, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9):
    self.f0 = f0
    self.f1 = f1
    self.f2 = f2
    self.f3 = f3
    self.f4 = f4
    self.f5 = f5
    self.f6 = f6
    self.f7 = f7
    self.f8 = f8
    self.f9 = f9


def assign_12(self, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11):
    self.f0 = f0
    self.f1 = f1
    self.f2 = f2
    self.f3 = f3
    self.f4 = f4
    self.f5 = f5
    self.f6 = f6
    self.f7 = f7
    self.f8 = f8
    self.f9 = f9
    self.f10 = f10
    self.f11 = f11


def assign_2(self, f0, f1):
    self.f0 = f0
    self.f1 = f1


def assign_2_made_1(self, f0, f1):
    self.f0 = f0
    self.f1 = make_1() if f1 is made else f1


def assign_3_checked(self, f0, f1, f2):
    self.f0 = f0
    self.f1 = f1
    self.f2 = f2
    self.__post_init__()


def assign_3_made_2(self, f0, f1, f2):
    self.f0 = f0
    self.f1 = f1
    self.f2 = make_2() if f2 is made else f2


def assign_4_checked(self, f0, f1, f2, f3):
    self.f0 = f0
    self.f1 = f1
    self.f2 = f2
    self.f3 = f3
    self.__post_init__()


def assign_4_made_2(self, f0, f1, f2, f3):
    self.f0 = f0
    self.f1 = f1
    self.f2 = make_2() if f2 is made else f2
    self.f3 = f3


def assign_4_made_2_3(self, f0, f1, f2, f3):
    self.f0 = f0
    self.f1 = f1
    self.f2 = make_2() if f2 is made else f2
    self.f3 = make_3() if f3 is made else f3


def assign_5_made_1_2(self, f0, f1, f2, f3, f4):
    self.f0 = f0
    self.f1 = make_1() if f1 is made else f1
    self.f2 = make_2() if f2 is made else f2
    self.f3 = f3
    self.f4 = f4


def assign_6(self, f0, f1, f2, f3, f4, f5):
    self.f0 = f0
    self.f1 = f1
    self.f2 = f2
    self.f3 = f3
    self.f4 = f4
    self.f5 = f5


def assign_7_made_4_5(self, f0, f1, f2, f3, f4, f5, f6):
    self.f0 = f0
    self.f1 = f1
    self.f2 = f2
    self.f3 = f3
    self.f4 = make_4() if f4 is made else f4
    self.f5 = make_5() if f5 is made else f5
    self.f6 = f6


def assign_8_made_0_3(self, f0, f1, f2, f3, f4, f5, f6, f7):
    self.f0 = make_0() if f0 is made else f0
    self.f1 = f1
    self.f2 = f2
    self.f3 = make_3() if f3 is made else f3
    self.f4 = f4
    self.f5 = f5
    self.f6 = f6
    self.f7 = f7


def assign_9(self, f0, f1, f2, f3, f4, f5, f6, f7, f8):
    self.f0 = f0
    self.f1 = f1
    self.f2 = f2
    self.f3 = f3
    self.f4 = f4
    self.f5 = f5
    self.f6 = f6
    self.f7 = f7
    self.f8 = f8


def assign_9_made_5_6_7_8(self, f0, f1, f2, f3, f4, f5, f6, f7, f8):
    self.f0 = f0
    self.f1 = f1
    self.f2 = f2
    self.f3 = f3
    self.f4 = f4
    self.f5 = make_5() if f5 is made else f5
    self.f6 = make_6() if f6 is made else f6
    self.f7 = make_7() if f7 is made else f7
    self.f8 = make_8() if f8 is made else f8


def fill_1(self, f0):
    put_0(self, f0)


def fill_10(self, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, f2)
    put_3(self, f3)
    put_4(self, f4)
    put_5(self, f5)
    put_6(self, f6)
    put_7(self, f7)
    put_8(self, f8)
    put_9(self, f9)


def fill_10_made_8(self, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, f2)
    put_3(self, f3)
    put_4(self, f4)
    put_5(self, f5)
    put_6(self, f6)
    put_7(self, f7)
    put_8(self, make_8() if f8 is made else f8)
    put_9(self, f9)


def fill_11(self, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, f2)
    put_3(self, f3)
    put_4(self, f4)
    put_5(self, f5)
    put_6(self, f6)
    put_7(self, f7)
    put_8(self, f8)
    put_9(self, f9)
    put_10(self, f10)


def fill_12(self, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, f2)
    put_3(self, f3)
    put_4(self, f4)
    put_5(self, f5)
    put_6(self, f6)
    put_7(self, f7)
    put_8(self, f8)
    put_9(self, f9)
    put_10(self, f10)
    put_11(self, f11)


def fill_13(self, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, f2)
    put_3(self, f3)
    put_4(self, f4)
    put_5(self, f5)
    put_6(self, f6)
    put_7(self, f7)
    put_8(self, f8)
    put_9(self, f9)
    put_10(self, f10)
    put_11(self, f11)
    put_12(self, f12)


def fill_13_made_5(self, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, f2)
    put_3(self, f3)
    put_4(self, f4)
    put_5(self, make_5() if f5 is made else f5)
    put_6(self, f6)
    put_7(self, f7)
    put_8(self, f8)
    put_9(self, f9)
    put_10(self, f10)
    put_11(self, f11)
    put_12(self, f12)


def fill_14(self, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, f2)
    put_3(self, f3)
    put_4(self, f4)
    put_5(self, f5)
    put_6(self, f6)
    put_7(self, f7)
    put_8(self, f8)
    put_9(self, f9)
    put_10(self, f10)
    put_11(self, f11)
    put_12(self, f12)
    put_13(self, f13)


def fill_14_made_12(self, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, f2)
    put_3(self, f3)
    put_4(self, f4)
    put_5(self, f5)
    put_6(self, f6)
    put_7(self, f7)
    put_8(self, f8)
    put_9(self, f9)
    put_10(self, f10)
    put_11(self, f11)
    put_12(self, make_12() if f12 is made else f12)
    put_13(self, f13)


def fill_15(self, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, f2)
    put_3(self, f3)
    put_4(self, f4)
    put_5(self, f5)
    put_6(self, f6)
    put_7(self, f7)
    put_8(self, f8)
    put_9(self, f9)
    put_10(self, f10)
    put_11(self, f11)
    put_12(self, f12)
    put_13(self, f13)
    put_14(self, f14)


def fill_15_checked(self, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, f2)
    put_3(self, f3)
    put_4(self, f4)
    put_5(self, f5)
    put_6(self, f6)
    put_7(self, f7)
    put_8(self, f8)
    put_9(self, f9)
    put_10(self, f10)
    put_11(self, f11)
    put_12(self, f12)
    put_13(self, f13)
    put_14(self, f14)
    self.__post_init__()


def fill_16(self, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, f2)
    put_3(self, f3)
    put_4(self, f4)
    put_5(self, f5)
    put_6(self, f6)
    put_7(self, f7)
    put_8(self, f8)
    put_9(self, f9)
    put_10(self, f10)
    put_11(self, f11)
    put_12(self, f12)
    put_13(self, f13)
    put_14(self, f14)
    put_15(self, f15)


def fill_17(self, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, f2)
    put_3(self, f3)
    put_4(self, f4)
    put_5(self, f5)
    put_6(self, f6)
    put_7(self, f7)
    put_8(self, f8)
    put_9(self, f9)
    put_10(self, f10)
    put_11(self, f11)
    put_12(self, f12)
    put_13(self, f13)
    put_14(self, f14)
    put_15(self, f15)
    put_16(self, f16)


def fill_18(self, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, f2)
    put_3(self, f3)
    put_4(self, f4)
    put_5(self, f5)
    put_6(self, f6)
    put_7(self, f7)
    put_8(self, f8)
    put_9(self, f9)
    put_10(self, f10)
    put_11(self, f11)
    put_12(self, f12)
    put_13(self, f13)
    put_14(self, f14)
    put_15(self, f15)
    put_16(self, f16)
    put_17(self, f17)


def fill_2(self, f0, f1):
    put_0(self, f0)
    put_1(self, f1)


def fill_20(self, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, f2)
    put_3(self, f3)
    put_4(self, f4)
    put_5(self, f5)
    put_6(self, f6)
    put_7(self, f7)
    put_8(self, f8)
    put_9(self, f9)
    put_10(self, f10)
    put_11(self, f11)
    put_12(self, f12)
    put_13(self, f13)
    put_14(self, f14)
    put_15(self, f15)
    put_16(self, f16)
    put_17(self, f17)
    put_18(self, f18)
    put_19(self, f19)


def fill_21(self, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, f2)
    put_3(self, f3)
    put_4(self, f4)
    put_5(self, f5)
    put_6(self, f6)
    put_7(self, f7)
    put_8(self, f8)
    put_9(self, f9)
    put_10(self, f10)
    put_11(self, f11)
    put_12(self, f12)
    put_13(self, f13)
    put_14(self, f14)
    put_15(self, f15)
    put_16(self, f16)
    put_17(self, f17)
    put_18(self, f18)
    put_19(self, f19)
    put_20(self, f20)


def fill_23(self, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, f2)
    put_3(self, f3)
    put_4(self, f4)
    put_5(self, f5)
    put_6(self, f6)
    put_7(self, f7)
    put_8(self, f8)
    put_9(self, f9)
    put_10(self, f10)
    put_11(self, f11)
    put_12(self, f12)
    put_13(self, f13)
    put_14(self, f14)
    put_15(self, f15)
    put_16(self, f16)
    put_17(self, f17)
    put_18(self, f18)
    put_19(self, f19)
    put_20(self, f20)
    put_21(self, f21)
    put_22(self, f22)


def fill_2_checked(self, f0, f1):
    put_0(self, f0)
    put_1(self, f1)
    self.__post_init__()


def fill_3(self, f0, f1, f2):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, f2)


def fill_3_checked(self, f0, f1, f2):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, f2)
    self.__post_init__()


def fill_4(self, f0, f1, f2, f3):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, f2)
    put_3(self, f3)


def fill_4_checked(self, f0, f1, f2, f3):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, f2)
    put_3(self, f3)
    self.__post_init__()


def fill_5(self, f0, f1, f2, f3, f4):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, f2)
    put_3(self, f3)
    put_4(self, f4)


def fill_5_made_1_2_3_4(self, f0, f1, f2, f3, f4):
    put_0(self, f0)
    put_1(self, make_1() if f1 is made else f1)
    put_2(self, make_2() if f2 is made else f2)
    put_3(self, make_3() if f3 is made else f3)
    put_4(self, make_4() if f4 is made else f4)


def fill_5_made_3_4(self, f0, f1, f2, f3, f4):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, f2)
    put_3(self, make_3() if f3 is made else f3)
    put_4(self, make_4() if f4 is made else f4)


def fill_5_made_4(self, f0, f1, f2, f3, f4):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, f2)
    put_3(self, f3)
    put_4(self, make_4() if f4 is made else f4)


def fill_6(self, f0, f1, f2, f3, f4, f5):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, f2)
    put_3(self, f3)
    put_4(self, f4)
    put_5(self, f5)


def fill_6_checked(self, f0, f1, f2, f3, f4, f5):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, f2)
    put_3(self, f3)
    put_4(self, f4)
    put_5(self, f5)
    self.__post_init__()


def fill_6_made_1_4(self, f0, f1, f2, f3, f4, f5):
    put_0(self, f0)
    put_1(self, make_1() if f1 is made else f1)
    put_2(self, f2)
    put_3(self, f3)
    put_4(self, make_4() if f4 is made else f4)
    put_5(self, f5)


def fill_6_made_2(self, f0, f1, f2, f3, f4, f5):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, make_2() if f2 is made else f2)
    put_3(self, f3)
    put_4(self, f4)
    put_5(self, f5)


def fill_6_made_2_3(self, f0, f1, f2, f3, f4, f5):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, make_2() if f2 is made else f2)
    put_3(self, make_3() if f3 is made else f3)
    put_4(self, f4)
    put_5(self, f5)


def fill_6_made_2_5(self, f0, f1, f2, f3, f4, f5):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, make_2() if f2 is made else f2)
    put_3(self, f3)
    put_4(self, f4)
    put_5(self, make_5() if f5 is made else f5)


def fill_6_made_4(self, f0, f1, f2, f3, f4, f5):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, f2)
    put_3(self, f3)
    put_4(self, make_4() if f4 is made else f4)
    put_5(self, f5)


def fill_7(self, f0, f1, f2, f3, f4, f5, f6):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, f2)
    put_3(self, f3)
    put_4(self, f4)
    put_5(self, f5)
    put_6(self, f6)


def fill_7_made_2(self, f0, f1, f2, f3, f4, f5, f6):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, make_2() if f2 is made else f2)
    put_3(self, f3)
    put_4(self, f4)
    put_5(self, f5)
    put_6(self, f6)


def fill_7_made_5(self, f0, f1, f2, f3, f4, f5, f6):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, f2)
    put_3(self, f3)
    put_4(self, f4)
    put_5(self, make_5() if f5 is made else f5)
    put_6(self, f6)


def fill_7_made_6(self, f0, f1, f2, f3, f4, f5, f6):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, f2)
    put_3(self, f3)
    put_4(self, f4)
    put_5(self, f5)
    put_6(self, make_6() if f6 is made else f6)


def fill_8(self, f0, f1, f2, f3, f4, f5, f6, f7):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, f2)
    put_3(self, f3)
    put_4(self, f4)
    put_5(self, f5)
    put_6(self, f6)
    put_7(self, f7)


def fill_8_checked(self, f0, f1, f2, f3, f4, f5, f6, f7):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, f2)
    put_3(self, f3)
    put_4(self, f4)
    put_5(self, f5)
    put_6(self, f6)
    put_7(self, f7)
    self.__post_init__()


def fill_9(self, f0, f1, f2, f3, f4, f5, f6, f7, f8):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, f2)
    put_3(self, f3)
    put_4(self, f4)
    put_5(self, f5)
    put_6(self, f6)
    put_7(self, f7)
    put_8(self, f8)


def fill_9_made_8(self, f0, f1, f2, f3, f4, f5, f6, f7, f8):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, f2)
    put_3(self, f3)
    put_4(self, f4)
    put_5(self, f5)
    put_6(self, f6)
    put_7(self, f7)
    put_8(self, make_8() if f8 is made else f8)


def fill_9_made_8_checked(self, f0, f1, f2, f3, f4, f5, f6, f7, f8):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, f2)
    put_3(self, f3)
    put_4(self, f4)
    put_5(self, f5)
    put_6(self, f6)
    put_7(self, f7)
    put_8(self, make_8() if f8 is made else f8)
    self.__post_init__()


def set_0(self):
    pass


def set_1(self, f0):
    put(self, "f0", f0)


def set_10(self, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9):
    put(self, "f0", f0)
    put(self, "f1", f1)
    put(self, "f2", f2)
    put(self, "f3", f3)
    put(self, "f4", f4)
    put(self, "f5", f5)
    put(self, "f6", f6)
    put(self, "f7", f7)
    put(self, "f8", f8)
    put(self, "f9", f9)


def set_11(self, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10):
    put(self, "f0", f0)
    put(self, "f1", f1)
    put(self, "f2", f2)
    put(self, "f3", f3)
    put(self, "f4", f4)
    put(self, "f5", f5)
    put(self, "f6", f6)
    put(self, "f7", f7)
    put(self, "f8", f8)
    put(self, "f9", f9)
    put(self, "f10", f10)


def set_12(self, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11):
    put(self, "f0", f0)
    put(self, "f1", f1)
    put(self, "f2", f2)
    put(self, "f3", f3)
    put(self, "f4", f4)
    put(self, "f5", f5)
    put(self, "f6", f6)
    put(self, "f7", f7)
    put(self, "f8", f8)
    put(self, "f9", f9)
    put(self, "f10", f10)
    put(self, "f11", f11)


def set_17(self, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16):
    put(self, "f0", f0)
    put(self, "f1", f1)
    put(self, "f2", f2)
    put(self, "f3", f3)
    put(self, "f4", f4)
    put(self, "f5", f5)
    put(self, "f6", f6)
    put(self, "f7", f7)
    put(self, "f8", f8)
    put(self, "f9", f9)
    put(self, "f10", f10)
    put(self, "f11", f11)
    put(self, "f12", f12)
    put(self, "f13", f13)
    put(self, "f14", f14)
    put(self, "f15", f15)
    put(self, "f16", f16)


def set_2(self, f0, f1):
    put(self, "f0", f0)
    put(self, "f1", f1)


def set_27(self, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26):
    put(self, "f0", f0)
    put(self, "f1", f1)
    put(self, "f2", f2)
    put(self, "f3", f3)
    put(self, "f4", f4)
    put(self, "f5", f5)
    put(self, "f6", f6)
    put(self, "f7", f7)
    put(self, "f8", f8)
    put(self, "f9", f9)
    put(self, "f10", f10)
    put(self, "f11", f11)
    put(self, "f12", f12)
    put(self, "f13", f13)
    put(self, "f14", f14)
    put(self, "f15", f15)
    put(self, "f16", f16)
    put(self, "f17", f17)
    put(self, "f18", f18)
    put(self, "f19", f19)
    put(self, "f20", f20)
    put(self, "f21", f21)
    put(self, "f22", f22)
    put(self, "f23", f23)
    put(self, "f24", f24)
    put(self, "f25", f25)
    put(self, "f26", f26)


def set_3(self, f0, f1, f2):
    put(self, "f0", f0)
    put(self, "f1", f1)
    put(self, "f2", f2)


def set_4(self, f0, f1, f2, f3):
    put(self, "f0", f0)
    put(self, "f1", f1)
    put(self, "f2", f2)
    put(self, "f3", f3)


def set_5(self, f0, f1, f2, f3, f4):
    put(self, "f0", f0)
    put(self, "f1", f1)
    put(self, "f2", f2)
    put(self, "f3", f3)
    put(self, "f4", f4)


def set_6(self, f0, f1, f2, f3, f4, f5):
    put(self, "f0", f0)
    put(self, "f1", f1)
    put(self, "f2", f2)
    put(self, "f3", f3)
    put(self, "f4", f4)
    put(self, "f5", f5)


def set_7(self, f0, f1, f2, f3, f4, f5, f6):
    put(self, "f0", f0)
    put(self, "f1", f1)
    put(self, "f2", f2)
    put(self, "f3", f3)
    put(self, "f4", f4)
    put(self, "f5", f5)
    put(self, "f6", f6)


def set_8(self, f0, f1, f2, f3, f4, f5, f6, f7):
    put(self, "f0", f0)
    put(self, "f1", f1)
    put(self, "f2", f2)
    put(self, "f3", f3)
    put(self, "f4", f4)
    put(self, "f5", f5)
    put(self, "f6", f6)
    put(self, "f7", f7)
