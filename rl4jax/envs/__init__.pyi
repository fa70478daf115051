from .acrobot import Acrobot as Acrobot
from .cart_pole import CartPole as CartPole
from .cart_pole_no_vel import CartPoleNoVel as CartPoleNoVel
from .catch import Catch as Catch
from .grid_world import GridWorld as GridWorld
from .memory import Memory as Memory
from .mountain_car import MountainCar as MountainCar
from .mountain_car_continuous import MountainCarContinuous as MountainCarContinuous
from .multi_discrete_nav import MultiDiscreteNav as MultiDiscreteNav
from .pendulum import Pendulum as Pendulum
from .probes import (
    ProbeAction as ProbeAction,
    ProbeConstant as ProbeConstant,
    ProbeContext as ProbeContext,
    ProbeDiscount as ProbeDiscount,
    ProbeObservation as ProbeObservation,
)
from .registry import BUILT_IN as BUILT_IN, make as make
